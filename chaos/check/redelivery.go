package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// afterFault is how long after a fault was healed redeliveries are still due to it: what clients
// had not settled comes back when their nodes are given up.
const afterFault = 5 * time.Second

// span is a time in which a fault lasted, or its effects may.
type span struct{ from, to time.Duration }

// forever is the end of what has none.
const forever = time.Duration(1<<63 - 1)

// faultSpans returns when faults lasted; one that was not healed lasts for ever.
func faultSpans(events []history.Event) []span {
	var out []span
	open := map[int]int{} // fault → its index in out
	for i := range events {
		switch e := &events[i]; e.Kind {
		case history.Fault:
			open[e.Fault] = len(out)
			out = append(out, span{e.At, forever})
		case history.Healed:
			if j, is := open[e.Fault]; is {
				out[j].to = e.At + afterFault
			}
		default:
		}
	}
	return out
}

// faulty reports whether a fault lasted at some time in between.
func (l *ledger) faulty(from, to time.Duration) bool {
	return slices.ContainsFunc(l.faults, func(s span) bool { return s.from <= to && from <= s.to })
}

// flagged: the flag redelivered is set for what was delivered before, and for nothing else.
func flagged(l *ledger) Guarantee {
	g := Guarantee{Name: "the flag redelivered tells the truth", Rule: "G5, DEL-10"}
	for _, p := range l.places {
		for _, i := range l.fates[p].deliveries {
			g.Checked++
			if e := &l.events[i]; e.Again != (e.Acquired > 0) {
				g.Broken = append(g.Broken, l.finding(p, i, "delivered %d times before, and the flag is %t", e.Acquired, e.Again))
			}
		}
	}
	return g
}

// caused: a message is delivered again only for a reason that the history shows: it was returned,
// its consumer was lost, or a fault lasted (G3); each assignment has a number of its own, and the
// count of failed attempts never falls (DEL-10).
func caused(l *ledger) Guarantee {
	g := Guarantee{Name: "redeliveries have a cause", Rule: "G3, DEL-10"}
	for _, p := range l.places {
		if len(l.fates[p].deliveries) < 2 || l.spec(p.queue).Moved {
			continue
		}
		for _, life := range l.lives(p) {
			l.causedWithin(&g, p, life)
		}
	}
	return g
}

// causedWithin adds to the guarantee what happened in one life of a message in a queue: its numbers begin again when it
// has died and come back (DL-38).
func (l *ledger) causedWithin(g *Guarantee, p place, life []int) {
	f, byNumber := l.fates[p], slices.Clone(life)
	slices.SortStableFunc(byNumber, func(a, b int) int { return cmp.Compare(l.events[a].Acquired, l.events[b].Acquired) })
	for n := 1; n < len(byNumber); n++ {
		g.Checked++
		a, b := &l.events[byNumber[n-1]], &l.events[byNumber[n]]
		switch {
		case a.Acquired == b.Acquired && a.Acquired > 0: // as new: for storedOnce, deathsCounted
			g.Broken = append(g.Broken, l.finding(p, byNumber[n], "assigned to %s and to %s with the same number %d", a.Consumer, b.Consumer, a.Acquired))
		case a.Count > b.Count:
			g.Broken = append(g.Broken, l.finding(p, byNumber[n], "failed %d times, then %d times", a.Count, b.Count))
		case a.Acquired != b.Acquired && !l.returned(f, byNumber[n-1], b.At) && !l.faulty(a.At, b.At):
			g.Broken = append(g.Broken, l.finding(p, byNumber[n], "delivered again without a cause, after %s had it", a.Consumer))
		}
	}
}

// noticed is how much later than others a client may see that its connection is lost.
const noticed = time.Second

// returned reports whether the consumer of a delivery gave it back, or was lost, before the time.
func (l *ledger) returned(f *fate, delivery int, before time.Duration) bool {
	to := l.events[delivery].Consumer
	for _, i := range f.deciding {
		if e := &l.events[i]; i > delivery && e.Consumer == to && (e.Outcome == history.Requeue || e.Outcome == history.Return) && e.At <= before {
			return true
		}
	}
	lost, is := l.lost[to]
	return is && lost <= before+noticed
}

// limited: no message is delivered that has failed more often than the delivery limit (DEL-9).
func limited(l *ledger) Guarantee {
	g := Guarantee{Name: "the delivery limit holds", Rule: "DEL-9"}
	for _, p := range l.places {
		limit := l.spec(p.queue).DeliveryLimit
		if limit < 0 {
			continue
		}
		for _, i := range l.fates[p].deliveries {
			g.Checked++
			if n := l.events[i].Count; int(n) > limit {
				g.Broken = append(g.Broken, l.finding(p, i, "delivered after %d failures, the limit is %d", n, limit))
			}
		}
	}
	return g
}
