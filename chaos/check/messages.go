package check

import (
	"fmt"

	"github.com/quorate/quorate/chaos/history"
)

// finding returns a breach at the event of this index.
func (l *ledger) finding(p place, at int, format string, args ...any) Finding {
	return Finding{At: l.events[at].At, Queue: p.queue, Message: p.Message, Why: fmt.Sprintf(format, args...)}
}

// nothingInvented: what is delivered was published, and not refused (PUB-5).
func nothingInvented(l *ledger) Guarantee {
	g := Guarantee{Name: "nothing is invented", Rule: "PUB-5"}
	for _, p := range l.places {
		f := l.fates[p]
		if len(f.deliveries) == 0 || len(l.deadOf[p.queue]) > 0 && !f.expected || l.spec(p.queue).Family != "" && !f.expected {
			continue // for deadLettersOnce, movedOnce
		}
		g.Checked++
		switch at := f.deliveries[0]; {
		case f.published < 0:
			g.Broken = append(g.Broken, l.finding(p, at, "delivered, and never published to the queue"))
		case f.refused >= 0:
			g.Broken = append(g.Broken, l.finding(p, at, "delivered, though it was refused for good"))
		}
	}
	return g
}

// storedOnce: a message is stored once, so it is delivered as new once (PUB-6). What may come back
// when it has died is for deathsCounted.
func storedOnce(l *ledger) Guarantee {
	g := Guarantee{Name: "nothing is stored twice", Rule: "PUB-6"}
	for _, p := range l.places {
		f := l.fates[p]
		if len(f.deliveries) == 0 || !f.expected || l.spec(p.queue).Moved || l.comesBack(p.queue) {
			continue
		}
		g.Checked++
		if n := l.asNew(f); n > 1 {
			g.Broken = append(g.Broken, l.finding(p, f.deliveries[len(f.deliveries)-1], "delivered %d times as new", n))
		}
	}
	return g
}

// settledStays: after the commit of an ack or a discard the message is not delivered, unless its
// dead letters may come back. What is read after it, and was assigned before, had been sent to a consumer that was lost.
func settledStays(l *ledger) Guarantee {
	g := Guarantee{Name: "what is settled stays settled", Rule: "G4"}
	for _, p := range l.places {
		f := l.fates[p]
		for _, i := range f.decided {
			o := l.events[i].Outcome
			if o != history.Ack && o != history.Replace && (o != history.Discard || l.spec(p.queue).Moved || l.comesBack(p.queue)) {
				continue
			}
			g.Checked++
			if n := l.afterSettled(p, i); n >= 0 {
				g.Broken = append(g.Broken, l.finding(p, n, "delivered after its %s was committed", o))
			}
			break
		}
	}
	return g
}

// afterSettled returns a delivery that was read after a settlement's commit and not assigned before the delivery that it
// settles; -1: there is none.
func (l *ledger) afterSettled(p place, commit int) int {
	settled := -1
	for _, i := range l.fates[p].deliveries {
		switch {
		case i > commit:
			if settled < 0 || l.compareTurns(p.queue, i, settled) >= 0 {
				return i
			}
		case l.events[i].Consumer == l.events[commit].Consumer:
			settled = i
		}
	}
	return -1
}

// session returns the session of its publisher that the message belongs to.
func (l *ledger) session(p place) int {
	if f := l.fates[p]; f.published >= 0 {
		return l.events[f.published].Session
	}
	return 0
}

// inOrder: each publisher's messages are delivered as new in its order (PUB-6).
func inOrder(l *ledger) Guarantee {
	g := Guarantee{Name: "each publisher's order holds", Rule: "PUB-6"}
	type line struct {
		queue              string
		publisher, session int
	}
	newest := map[line]uint64{}
	for i := range l.events {
		e := &l.events[i]
		if e.Kind != history.Delivered || e.Acquired != 0 || !l.spec(e.Queue).Ordered {
			continue
		}
		g.Checked++
		at := line{e.Queue, e.Publisher, l.session(place{e.Queue, e.Message()})}
		if e.ID < newest[at] {
			g.Broken = append(g.Broken, l.finding(place{e.Queue, e.Message()}, i, "delivered as new after %d/%d", e.Publisher, newest[at]))
		}
		newest[at] = max(newest[at], e.ID)
	}
	return g
}
