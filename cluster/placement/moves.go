package placement

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/id"
)

// Group is the state of a group when moves are planned.
type Group struct {
	UID     id.QueueUID
	Members []id.NodeID
	Leader  id.NodeID // "": nobody knows
	// Preferred is the member that led it at first; "": none is preferred.
	Preferred id.NodeID
	Size      int  // members that it should have; 0: as many as it has
	Fixed     bool // counts, but is not to be moved now
}

// State is what plans are made from. No plan changes it.
type State struct {
	Nodes  []Candidate
	Groups []Group
}

// Move is one change of a group's members.
type Move struct {
	Group       id.QueueUID
	Join, Leave id.NodeID // "": none
}

// Transfer is one change of a group's leader.
type Transfer struct {
	Group    id.QueueUID
	From, To id.NodeID
}

// plan is the state as the moves made so far leave it.
type plan struct {
	replicas map[id.NodeID]int
	nodes    []Candidate
	moves    []Move
}

// plan counts the members of each node.
func (s State) plan() *plan {
	p := &plan{replicas: map[id.NodeID]int{}, nodes: s.Nodes}
	for _, g := range s.Groups {
		for _, m := range g.Members {
			p.replicas[m]++
		}
	}
	return p
}

// best returns the node that runs, is no member and holds the fewest replicas (RE-3), or "".
func (p *plan) best(g Group) id.NodeID {
	var found id.NodeID
	for _, n := range p.nodes {
		if !n.Alive || n.Lost || slices.Contains(g.Members, n.Node) {
			continue
		}
		if found == "" || cmp.Or(cmp.Compare(p.replicas[n.Node], p.replicas[found]), cmp.Compare(n.Node, found)) < 0 {
			found = n.Node
		}
	}
	return found
}

// move adds a move and keeps the counts, so that the next one sees it.
func (p *plan) move(g Group, join, leave id.NodeID) {
	p.moves = append(p.moves, Move{Group: g.UID, Join: join, Leave: leave})
	if join != "" {
		p.replicas[join]++
	}
	if leave != "" {
		p.replicas[leave]--
	}
}

// Grow plans a member on the node for every group that has none there.
func Grow(s State, n id.NodeID) []Move {
	p := s.plan()
	for _, g := range s.Groups {
		if !g.Fixed && !slices.Contains(g.Members, n) {
			p.move(g, n, "")
		}
	}
	return p.moves
}

// Shrink plans to take the node out of every group. With keep, the best other node takes its place in each; groups
// without such a node stay as they are. In either case, so do groups whose only member it is and cannot be replaced.
func Shrink(s State, n id.NodeID, keep bool) (moves []Move, stay []id.QueueUID) {
	p := s.plan()
	for _, g := range s.Groups {
		if g.Fixed || !slices.Contains(g.Members, n) {
			continue
		}
		join := id.NodeID("")
		if keep {
			join = p.best(g)
		}
		if join == "" && (keep || len(g.Members) == 1) {
			stay = append(stay, g.UID)
			continue
		}
		p.move(g, join, n)
	}
	return p.moves, stay
}

// Complete plans at most one move for every group: another node in the place of a member
// whose node is lost for good, or one more member for a group that has fewer than it
// should, as long as there are nodes that run (RE-4).
func Complete(s State) []Move {
	p := s.plan()
	lost := map[id.NodeID]bool{}
	for _, n := range s.Nodes {
		lost[n.Node] = n.Lost
	}
	for _, g := range s.Groups {
		if g.Fixed {
			continue
		}
		leave := id.NodeID("")
		if at := slices.IndexFunc(g.Members, func(m id.NodeID) bool { return lost[m] }); at >= 0 {
			leave = g.Members[at]
		}
		if leave == "" && len(g.Members) >= g.Size {
			continue
		}
		if join := p.best(g); join != "" {
			p.move(g, join, leave)
		}
	}
	return p.moves
}

// After returns the state once the moves are made. If the leader of a group leaves, the group's leader is unknown: it
// has still to elect one.
func (s State) After(moves []Move) State {
	made := make(map[id.QueueUID]Move, len(moves))
	for _, m := range moves {
		made[m.Group] = m
	}
	out := State{Nodes: s.Nodes, Groups: slices.Clone(s.Groups)}
	for i := range out.Groups {
		g := &out.Groups[i]
		m, moved := made[g.UID]
		if !moved {
			continue
		}
		g.Members = slices.DeleteFunc(slices.Clone(g.Members), func(n id.NodeID) bool { return n == m.Leave })
		if m.Join != "" {
			g.Members = append(g.Members, m.Join)
		}
		if g.Leader == m.Leave {
			g.Leader = ""
		}
	}
	return out
}

// Spread plans at most one move for every group, from the nodes that hold the most
// replicas to those that run and hold the fewest, as long as that makes it more even.
// Members that do not lead move first.
func Spread(s State) []Move {
	p := s.plan()
	moved := map[id.QueueUID]bool{}
	for {
		at, m, gain := -1, Move{}, 0
		for i, g := range s.Groups {
			if g.Fixed || moved[g.UID] {
				continue
			}
			if step, value := p.step(g); value > gain {
				at, m, gain = i, step, value
			}
		}
		if at < 0 {
			return p.moves
		}
		moved[m.Group] = true
		p.move(s.Groups[at], m.Join, m.Leave)
	}
}

// step returns the move of a group that makes the nodes most even, and what it is worth;
// 0: nothing. From one node to another that holds one less would change nothing.
func (p *plan) step(g Group) (m Move, value int) {
	to := p.best(g)
	if to == "" {
		return m, 0
	}
	for _, from := range g.Members {
		d := p.replicas[from] - p.replicas[to]
		if d < 2 {
			continue
		}
		v := 2 * d
		if from != g.Leader {
			v++
		}
		if v > value {
			m, value = Move{Group: g.UID, Join: to, Leave: from}, v
		}
	}
	return m, value
}
