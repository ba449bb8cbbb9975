package check

import (
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// activeWindow is how long a consumer that is no longer the active one may still receive what was on its way to it.
const activeWindow = time.Second

// oneActive: only one consumer at a time receives from a queue with a single active consumer (SAC-1). A consumer that
// another one has followed receives nothing more, except what was on its way, unless it becomes active again.
// Overlaps during a fault are not judged: a consumer that is cut off reads what it was sent when it can.
func oneActive(l *ledger) Guarantee {
	g := Guarantee{Name: "a single active consumer is never two", Rule: "SAC-1"}
	type turn struct {
		consumer string
		since    time.Duration
	}
	now := map[string]turn{}                  // by queue
	followed := map[[2]string]time.Duration{} // queue and consumer → when another one followed
	for i := range l.events {
		e := &l.events[i]
		if !l.spec(e.Queue).SingleActive {
			continue
		}
		me := [2]string{e.Queue, e.Consumer}
		switch e.Kind {
		case history.Active:
			delete(followed, me)
		case history.Delivered:
			g.Checked++
			t := now[e.Queue]
			at, was := followed[me]
			switch {
			case was && e.At > at+activeWindow && !l.faulty(at, e.At):
				g.Broken = append(g.Broken, l.finding(place{e.Queue, e.Message()}, i, "delivered to %s, %v after %s followed it", e.Consumer, e.At-at, t.consumer))
			case t.consumer != e.Consumer && !was:
				if t.consumer != "" {
					followed[[2]string{e.Queue, t.consumer}] = e.At
				}
				now[e.Queue] = turn{e.Consumer, e.At}
			}
		default:
		}
	}
	l.notified(&g)
	return g
}

// notified adds to the guarantee that no two consumers are notified as active at the same time, except within the
// window in which the former may not know yet.
func (l *ledger) notified(g *Guarantee) {
	type turn struct {
		span
		consumer string
		event    int
	}
	turns := map[string][]turn{} // by queue, in the order of their beginnings
	for i := range l.events {
		switch e := &l.events[i]; e.Kind {
		case history.Active:
			turns[e.Queue] = append(turns[e.Queue], turn{span{e.At, forever}, e.Consumer, i})
		case history.Inactive, history.Lost:
			of := turns[e.Queue]
			for j := range of {
				if of[j].consumer == e.Consumer && of[j].to == forever {
					of[j].to = e.At
				}
			}
		default:
		}
	}
	for queue, of := range turns {
		var last turn // the one that ends last of those before
		for i, t := range of {
			g.Checked++
			if until := min(t.to, last.to); i > 0 && t.consumer != last.consumer && until > t.from+activeWindow && !l.faulty(last.from, t.from+activeWindow) {
				g.Broken = append(g.Broken, l.finding(place{queue: queue}, t.event, "%s is notified that it is active, and %s is notified of nothing else for %v", t.consumer, last.consumer, until-t.from))
			}
			if i == 0 || t.to > last.to {
				last = t
			}
		}
	}
}
