package placement

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/id"
)

// Leaders are uneven when one node leads more groups than another by more than unevenGroups,
// and by more than one in unevenPart of what each would lead if all led as many (RE-10).
// Balance ends at a difference of one, so that what it has evened out is far from uneven.
const (
	unevenGroups = 2
	unevenPart   = 5
)

// Uneven reports whether leaders are spread so unevenly over the nodes that run that it is
// worth moving some. Groups whose leader nobody knows do not count.
func Uneven(s State) bool {
	b := newBalance(s)
	least, most, sum, nodes := 0, 0, 0, 0
	for _, n := range b.nodes {
		if !b.alive[n] {
			continue
		}
		led := b.count[n]
		if least = min(least, led); nodes == 0 {
			least = led
		}
		most, sum, nodes = max(most, led), sum+led, nodes+1
	}
	return nodes > 1 && most-least > max(unevenGroups, sum/nodes/unevenPart)
}

// Balance plans transfers of leadership, as few as make the numbers of groups that nodes
// lead differ by one at most, or as little as members allow. A group is led by one of its
// members that run, if possible by the preferred one.
func Balance(s State) []Transfer { return newBalance(s).plan(len(s.Groups)) }

// Ease plans the first transfers of Balance, limit or a few more, and returns how many groups
// there are that nodes lead beyond an even share.
func Ease(s State, limit int) (ts []Transfer, beyond int) {
	b := newBalance(s)
	sum, nodes := 0, 0
	for _, n := range b.nodes {
		if b.alive[n] {
			sum, nodes = sum+b.count[n], nodes+1
		}
	}
	for _, n := range b.nodes {
		if nodes > 0 && b.alive[n] {
			beyond += max(0, b.count[n]-(sum+nodes-1)/nodes)
		}
	}
	return b.plan(limit), beyond
}

// plan hands groups over until there are limit handovers, or no path is left.
func (b *balance) plan(limit int) []Transfer {
	for made := 0; made < limit; {
		path := b.path()
		if path == nil {
			break
		}
		for _, step := range path {
			b.lead(b.preferred(step), step.to)
		}
		made += len(path)
	}
	return b.transfers()
}

// preferred returns the group to hand over from one node to another in place of that of the
// step: one that prefers to be led there, or one that does not prefer where it is.
func (b *balance) preferred(step handover) int {
	from := b.leaders[step.group]
	worth := func(i int) int {
		switch b.groups[i].Preferred {
		case step.to:
			return 2
		case from:
			return 0
		default:
			return 1
		}
	}
	best := step.group
	for i, g := range b.groups {
		if b.leaders[i] == from && !g.Fixed && worth(i) > worth(best) && slices.Contains(g.Members, step.to) {
			best = i
		}
	}
	return best
}

// balance is who leads what, as the transfers planned so far leave it.
type balance struct {
	groups  []Group
	alive   map[id.NodeID]bool
	nodes   []id.NodeID
	leaders []id.NodeID // of each group
	count   map[id.NodeID]int
}

// handover is a step of a search: this group's leader goes there.
type handover struct {
	group int
	to    id.NodeID
}

// newBalance counts the leaders of the groups in s.
func newBalance(s State) *balance {
	b := &balance{
		groups: s.Groups, alive: map[id.NodeID]bool{},
		leaders: make([]id.NodeID, len(s.Groups)), count: map[id.NodeID]int{},
	}
	for _, n := range s.Nodes {
		b.alive[n.Node] = n.Alive && !n.Lost
		b.nodes = append(b.nodes, n.Node)
	}
	slices.Sort(b.nodes)
	for i, g := range s.Groups {
		b.leaders[i] = g.Leader
		b.count[g.Leader]++
	}
	return b
}

// lead moves a leader and keeps the counts.
func (b *balance) lead(group int, to id.NodeID) {
	from := b.leaders[group]
	b.count[from]--
	b.leaders[group] = to
	b.count[to]++
}

// path returns handovers, each to the node from which the next one comes, from a node
// that leads the most to one that leads at least two less; nil if there are none.
func (b *balance) path() []handover {
	from := slices.Clone(b.nodes)
	slices.SortStableFunc(from, func(x, y id.NodeID) int { return cmp.Compare(b.count[y], b.count[x]) })
	for _, n := range from {
		if p := b.pathFrom(n); p != nil {
			return p
		}
	}
	return nil
}

// pathFrom searches breadth first, so that the path to the node that leads the fewest is
// a shortest one.
func (b *balance) pathFrom(start id.NodeID) []handover {
	type reach struct {
		by   handover
		from id.NodeID
	}
	reached := map[id.NodeID]reach{start: {}}
	order := []id.NodeID{start}
	for at := 0; at < len(order); at++ {
		n := order[at]
		for i, g := range b.groups {
			if len(order) == len(b.nodes) {
				break // all are reached
			}
			if b.leaders[i] != n || g.Fixed {
				continue
			}
			for _, m := range g.Members {
				if _, seen := reached[m]; !seen && b.alive[m] {
					reached[m] = reach{handover{i, m}, n}
					order = append(order, m)
				}
			}
		}
	}
	end := slices.MinFunc(order, func(x, y id.NodeID) int {
		return cmp.Compare(b.count[x], b.count[y]) // the first of equals
	})
	if b.count[start]-b.count[end] < 2 {
		return nil
	}
	var path []handover
	for n := end; n != start; n = reached[n].from {
		path = append(path, reached[n].by)
	}
	slices.Reverse(path)
	return path
}

// transfers returns what is to be done to get from the leaders as they are to those of b.
func (b *balance) transfers() (ts []Transfer) {
	for i, g := range b.groups {
		if b.leaders[i] != g.Leader {
			ts = append(ts, Transfer{Group: g.UID, From: g.Leader, To: b.leaders[i]})
		}
	}
	return ts
}
