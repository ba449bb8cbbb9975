package sim

import (
	"cmp"

	"github.com/quorate/quorate/quorumq"
)

// rank is where a ready copy stands among those that may be delivered (DEL-1, PR-1). Copies that became
// ready by the same command may have the same one: their order is not judged.
type rank struct {
	returned bool   // it was with a consumer
	since    uint64 // index of the command by which it became ready
	level    uint8
	placed   uint64 // index of the command by which it was ready first
	slot     uint32 // within the command that stored it
}

// before reports whether one is to be delivered before the other, as far as that is laid down.
func (r rank) before(o rank, c *quorumq.Config) bool {
	switch {
	case c.ReturnToPlace:
	case r.returned != o.returned:
		return r.returned
	case r.returned:
		return r.since < o.since
	}
	if r.level != o.level {
		return r.level > o.level && !c.FairPriorities // else by turns (PR-3)
	}
	return cmp.Or(cmp.Compare(r.placed, o.placed), cmp.Compare(r.slot, o.slot)) < 0
}

// rule is the one that is broken if of two copies the wrong one comes first.
func (r rank) rule(o rank, c *quorumq.Config) string {
	if (c.ReturnToPlace || !r.returned && !o.returned) && r.level != o.level {
		return "PR-1"
	}
	return "DEL-1"
}

// order follows in which order the ready copies of a queue are to be delivered.
type order struct {
	ready map[*copied]struct{}
	given []given // by the newest command
}

// given is an assignment of the newest command, of a copy that was ready before it.
type given struct {
	copy *copied
	at   rank
}

// begin records that a copy is ready from this command on.
func (l *ledger) begin(c *copied) {
	r := &c.rank
	r.since, r.level, r.returned = l.index, c.level(), c.acquired > 0
	if !r.returned {
		r.placed, r.slot = l.index, 0
	}
}

// level is a copy's priority: what dies or is moved has none of its own.
func (c *copied) level() uint8 {
	if c.meta.kind == published {
		return c.meta.level
	}
	return quorumq.DefaultPriority
}

// gives records an assignment.
func (l *ledger) gives(c *copied) {
	if c.rank.since < l.index {
		l.order.given = append(l.order.given, given{copy: c, at: c.rank})
	}
}

// judgeOrder holds what the command assigned against one another, and against what it has left. What
// became ready by the command is left out: it may have come after the assignment.
func (l *ledger) judgeOrder() {
	for i, g := range l.order.given {
		for _, o := range l.order.given[:i] {
			if g.at.before(o.at, &l.config) {
				l.broke(g.at.rule(o.at, &l.config), "body %v (%+v) is delivered after body %v (%+v)", g.copy.ref, g.at, o.copy.ref, o.at)
			}
		}
		var first *copied // of those that come before it; by storage, so that a seed has one report
		for c := range l.order.ready {
			if c.rank.since < l.index && c.due == 0 && !l.due(c) && c.rank.before(g.at, &l.config) && (first == nil || c.stored(first) < 0) {
				first = c
			}
		}
		if first != nil {
			l.broke(first.rank.rule(g.at, &l.config), "body %v (%+v) is delivered, body %v (%+v) is still ready", g.copy.ref, g.at, first.ref, first.rank)
		}
	}
	l.order.given = l.order.given[:0]
}

// stored compares when two copies were stored.
func (c *copied) stored(o *copied) int {
	return cmp.Or(cmp.Compare(c.ref.Index, o.ref.Index), cmp.Compare(c.ref.Slot, o.ref.Slot))
}
