// Package placement decides which nodes hold a new group and which of them leads first,
// and which members and leaders move when nodes come and go.
// It computes only: the same input gives the same answer on every node.
package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/id"
)

// DefaultSize is the number of members of a group that asks for none (RE-1).
const DefaultSize = 3

// ErrNoQuorum means that too few nodes run to start the group now; later they may.
var ErrNoQuorum = errors.New("placement: too few nodes run")

// Candidate is the state of a node when a group is placed.
type Candidate struct {
	Node     id.NodeID
	Replicas int  // members of groups that it holds
	Leaders  int  // groups that it leads
	Alive    bool // a hint: it seems to run
	Drains   bool // a hint: it takes no new work while others can
	Lost     bool // it will not come back
}

// Locator selects the first leader of a new group (RE-2).
type Locator uint8

const (
	// ClientLocal lets the node lead at which the group was declared.
	ClientLocal Locator = iota
	// Balanced lets the member lead that leads the fewest groups. It counts however
	// many queues there are: counting is cheap here, and evens out better than chance.
	Balanced
)

// String returns the name that users write.
func (l Locator) String() string {
	switch l {
	case ClientLocal:
		return "client-local"
	case Balanced:
		return "balanced"
	default:
		return fmt.Sprintf("locator %d", uint8(l))
	}
}

// Place chooses the members of a new group, the leader among them. There are size of
// them, DefaultSize if it is 0, but no more than nodes (RE-1). The local node is the
// first of them unless it drains, the others follow in the order in which they were
// chosen: nodes that run first, then those that do not drain, then those with fewer
// replicas, then by id (RE-3). An empty local stands for a caller that is no member of the
// cluster: nobody is preferred.
//
// Errors: ErrNoQuorum; all others are faults of the input. The input is not changed.
func Place(nodes []Candidate, size int, local id.NodeID, locator Locator) (members []id.NodeID, leader id.NodeID, err error) {
	if err := check(nodes, size, local, locator); err != nil {
		return nil, "", err
	}
	if size == 0 {
		size = DefaultSize
	}
	order := slices.Clone(nodes)
	slices.SortFunc(order, func(a, b Candidate) int {
		return cmp.Or(
			before(a.Node == local && !a.Drains, b.Node == local && !b.Drains),
			before(a.Alive, b.Alive),
			before(!a.Drains, !b.Drains),
			cmp.Compare(a.Replicas, b.Replicas),
			cmp.Compare(a.Node, b.Node),
		)
	})
	chosen := order[:min(size, len(order))]
	alive := 0
	for _, c := range chosen {
		members = append(members, c.Node)
		if c.Alive {
			alive++
		}
	}
	if quorum := len(chosen)/2 + 1; alive < quorum {
		return nil, "", fmt.Errorf("%w: %d of the %d nodes %s run, a group of %d starts with %d: start more of them, or ask for a smaller group",
			ErrNoQuorum, alive, len(chosen), names(members), len(chosen), quorum)
	}
	return members, first(chosen, local, locator), nil
}

// first returns who leads (RE-2): a member that runs.
func first(chosen []Candidate, local id.NodeID, locator Locator) id.NodeID {
	if locator == ClientLocal && chosen[0].Node == local && chosen[0].Alive && !chosen[0].Drains {
		return local
	}
	return slices.MinFunc(chosen, func(a, b Candidate) int {
		return cmp.Or(before(a.Alive, b.Alive), before(!a.Drains, !b.Drains), cmp.Compare(a.Leaders, b.Leaders), cmp.Compare(a.Node, b.Node))
	}).Node
}

// check refuses what would make a choice impossible or ambiguous.
func check(nodes []Candidate, size int, local id.NodeID, locator Locator) error {
	if len(nodes) == 0 {
		return errors.New("placement: there are no nodes to choose from")
	}
	if size < 0 {
		return fmt.Errorf("placement: the group's size is %d: ask for at least 1 member", size)
	}
	if locator > Balanced {
		return fmt.Errorf("placement: %s is not known: use %s or %s", locator, ClientLocal, Balanced)
	}
	seen := make(map[id.NodeID]bool, len(nodes))
	for _, n := range nodes {
		if n.Node == "" || seen[n.Node] {
			return fmt.Errorf("placement: node %q is empty or listed twice: list every node once", n.Node)
		}
		seen[n.Node] = true
	}
	if local != "" && !seen[local] {
		return fmt.Errorf("placement: local node %q is not among the nodes", local)
	}
	return nil
}

// before orders what is true first.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// names lists nodes for an error.
func names(nodes []id.NodeID) string {
	s := make([]string, len(nodes))
	for i, n := range nodes {
		s[i] = string(n)
	}
	return strings.Join(s, ", ")
}
