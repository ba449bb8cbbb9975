package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorate/quorate/chaos/history"
)

// cyclesOf returns the queues whose dead letters may come back to them, each with all queues that these may pass.
func cyclesOf(queues map[string]*history.Queue) map[string][]string {
	out := map[string][]string{}
	for name, q := range queues {
		pass := targetsOf(*q)
		for n := 0; n < len(pass); n++ {
			next := queues[pass[n]]
			if next == nil {
				continue
			}
			for _, to := range targetsOf(*next) {
				if !slices.Contains(pass, to) {
					pass = append(pass, to)
				}
			}
		}
		if slices.Contains(pass, name) {
			out[name] = pass
		}
	}
	return out
}

// comesBack reports whether dead letters of the queue may come back to it. Then a message may be in it as new again and
// again.
func (l *ledger) comesBack(queue string) bool { return l.cycles[queue] != nil }

// undrained returns a queue that may still hold what was in this one: itself, or one from which dead letters come
// back; or "".
func (l *ledger) undrained(queue string) string {
	for _, q := range append([]string{queue}, l.cycles[queue]...) {
		if !l.drained[q] {
			return q
		}
	}
	return ""
}

// deathsIn returns how often the message had died in the queue when it was delivered.
func deathsIn(e *history.Event, queue string) (n uint64) {
	for _, d := range e.Deaths {
		if d.Queue == queue {
			n += d.Count
		}
	}
	return n
}

// lives returns the deliveries of a message in a queue, apart for each time that it was there: it had died so often in
// it before.
func (l *ledger) lives(p place) [][]int {
	f := l.fates[p]
	if !l.comesBack(p.queue) {
		return [][]int{f.deliveries}
	}
	at := map[uint64]int{}
	var out [][]int
	for _, i := range f.deliveries {
		n := deathsIn(&l.events[i], p.queue)
		life, known := at[n]
		if !known {
			life = len(out)
			at[n], out = life, append(out, nil)
		}
		out[life] = append(out[life], i)
	}
	return out
}

// compareTurns says which of two deliveries of a message in a queue was assigned first. When they are read says nothing: a
// consumer that is lost may read what it had been sent when the next one has long settled it.
func (l *ledger) compareTurns(queue string, a, b int) int {
	x, y := &l.events[a], &l.events[b]
	return cmp.Or(cmp.Compare(deathsIn(x, queue), deathsIn(y, queue)), cmp.Compare(x.Acquired, y.Acquired))
}

// deathsCounted: where dead letters come back to the queue in which they died, each time is counted, and comes once
// (DL-25, DL-30): no two deliveries as new have the same number of deaths there, none has more than consumers
// began to discard it before, and in the end one has as many as they discarded it for certain. When a delivery is read
// proves nothing: its consumer may have been lost long before.
func deathsCounted(l *ledger) Guarantee {
	g := Guarantee{Name: "deaths are counted", Rule: "DL-25, DL-30"}
	for _, p := range l.places {
		if !l.comesBack(p.queue) {
			continue
		}
		f := l.fates[p]
		asNew := map[uint64]bool{} // numbers of deaths
		most, last := uint64(0), -1
		for _, i := range f.deliveries {
			e := &l.events[i]
			g.Checked++
			n := deathsIn(e, p.queue)
			most = max(most, n)
			if why := l.miscounted(p, f, i); why != "" {
				g.Broken = append(g.Broken, l.finding(p, i, "%s", why))
			}
			if e.Acquired > 0 {
				continue
			}
			if asNew[n] {
				g.Broken = append(g.Broken, l.finding(p, i, "delivered as new twice after %d deaths in this queue", n))
			}
			asNew[n], last = true, i
		}
		if last < 0 || l.undrained(p.queue) != "" {
			continue
		}
		if died := l.discards(f.decided, last); died > most {
			g.Broken = append(g.Broken, l.finding(p, last, "discarded %d times for certain, and never delivered with more than %d deaths in this queue", died, most))
		}
	}
	return g
}

// miscounted returns why the deaths that a delivery carries are not those of a message that went round; empty: they may
// be. Each queue of a cycle has one target here, and no message is published to two of them.
func (l *ledger) miscounted(p place, f *fate, delivery int) string {
	e := &l.events[delivery]
	came, died := uint64(0), deathsIn(e, p.queue)
	for _, d := range e.Deaths {
		if why := l.unlikely(p.Message, d); why != "" {
			return why
		}
		if slices.Contains(l.deadOf[p.queue], d.Queue) {
			came += d.Count
		}
		if source := l.fates[place{d.Queue, p.Message}]; d.Reason == "rejected" && source != nil {
			if began := l.discards(source.deciding, delivery); d.Count > began {
				return fmt.Sprintf("died %d times of %s in %s, where consumers had discarded it %d times", d.Count, d.Reason, d.Queue, began)
			}
		}
	}
	if f.expected && came != died {
		return fmt.Sprintf("died %d times in this queue, and came back to it %d times", died, came)
	}
	return ""
}

// discards counts the discards among settlements of a message, or the beginnings of such, before an event.
func (l *ledger) discards(of []int, before int) (n uint64) {
	for _, i := range of {
		if i < before && l.events[i].Outcome == history.Discard {
			n++
		}
	}
	return n
}
