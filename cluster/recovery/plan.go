package recovery

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// plan decides about each group.
func (r *Recovery) plan() {
	cat := r.Report.Groups[id.CatalogGroup]
	r.Groups = append(r.Groups, r.decide(Group{Group: id.CatalogGroup, Members: cat.Voters}))
	r.Forgotten = slices.Clone(r.c.Lost)
	for q := range r.view.Queues() {
		g := Group{Group: q.UID.Group(), VHost: q.VHost, Name: q.Name, Members: slices.Clone(q.Members)}
		if s := r.newestReport(g.Group); len(s.Voters) > 0 {
			g.Members = s.Voters // what the group itself says
		}
		g = r.decide(g)
		if g.Action == Nothing {
			r.Forgotten = slices.DeleteFunc(r.Forgotten, func(n id.NodeID) bool { return slices.Contains(g.Members, n) })
		}
		if g.Action == Empty && (r.Groups[0].Action == Nothing || len(g.Lost) == 0) {
			g.Action = Declare
		}
		r.Groups = append(r.Groups, g)
	}
	if r.Groups[0].Action != Here {
		r.Forgotten = nil // only who recovers the catalog can write into it
	}
}

// logs returns what is known of a group, by node.
func (r *Recovery) logs(g id.GroupID) map[id.NodeID]raftfsm.Stored {
	out := map[id.NodeID]raftfsm.Stored{}
	for _, p := range append([]Report{r.Report}, r.c.Reports...) {
		if s, has := p.Groups[g]; has {
			out[p.Node] = s
		}
	}
	return out
}

// newestReport is the zero Stored if nobody has anything of the group.
func (r *Recovery) newestReport(g id.GroupID) (newest raftfsm.Stored) {
	for _, s := range r.logs(g) {
		if s.Newer(newest) {
			newest = s
		}
	}
	return newest
}

// decide fills in who is left, which log is the newest and what is to be done. It changes nothing on disk.
func (r *Recovery) decide(g Group) Group {
	g.Logs = map[id.NodeID]raftfsm.Stored{}
	logs := r.logs(g.Group)
	slices.Sort(g.Members)
	for _, m := range g.Members {
		if slices.Contains(r.c.Lost, m) {
			g.Lost = append(g.Lost, m)
			continue
		}
		g.Left = append(g.Left, m)
		s, has := logs[m]
		if !has {
			if r.reported(m) {
				g.Bare = append(g.Bare, m) // nobody to go on with
			} else {
				g.Missing = append(g.Missing, m)
			}
			continue
		}
		g.Logs[m] = s
		g.term = max(g.term, s.Term)
		if g.Newest == "" || s.Newer(g.Logs[g.Newest]) {
			g.Newest = m
		}
	}
	g.term++
	switch {
	case r.votersLeft(&g) > len(g.Members)/2:
		g.Action = Nothing
	case len(g.Missing) > 0:
		g.Action, g.Newest = Unknown, ""
	case g.Newest == "":
		g.Action = Empty
	case g.Newest == r.c.Node:
		g.Action = Here
	default:
		g.Action = Elsewhere
	}
	if g.Action == Here || g.Action == Elsewhere {
		g.Left = slices.Sorted(maps.Keys(g.Logs))
	}
	return g
}

// votersLeft returns how many of the members that are left count for a majority. A member that has nothing of a queue
// may have lost it with its node's log: then it is kept closed, does not vote, and is rebuilt only by a majority. It
// may also be new, and vote. If the catalog is recovered too, and removes it from the queue, the queue continues
// without it, and it joins again. If the catalog has its majority, the member is not removed, and if it votes it must
// stay.
func (r *Recovery) votersLeft(g *Group) int {
	if len(r.Groups) == 0 || r.Groups[0].Action == Nothing {
		return len(g.Left)
	}
	return len(g.Left) - len(g.Bare)
}

// reported reports whether what a node has stored is known.
func (r *Recovery) reported(n id.NodeID) bool {
	return n == r.c.Node || slices.ContainsFunc(r.c.Reports, func(p Report) bool { return p.Node == n })
}
