package check

import (
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// highestFirst: a message is not assigned to a consumer while one of a higher priority, which
// was confirmed before, waits (PR-1). With a prefetch of n the consumer gets its kth message once it
// began to settle k - n of those before, so a higher one that was confirmed until then, and comes
// to the same consumer later, was passed over. Only messages as new count: what is returned comes
// first whatever its priority is (DEL-1).
func highestFirst(l *ledger) Guarantee {
	g := Guarantee{Name: "higher priorities come first", Rule: "PR-1"}
	for _, r := range l.served(func(q history.Queue) bool { return q.Priorities }) {
		var waits [256]*fate // priority → of the later deliveries of it the one that was confirmed first
		for k, i := range slices.Backward(r.deliveries) {
			p := place{r.queue, l.events[i].Message()}
			f := l.fates[p]
			if f.published < 0 || l.events[i].Acquired > 0 {
				continue
			}
			own := l.events[f.published].Priority
			if since, known := r.room(k); known {
				g.Checked++
				if w := l.passedOver(waits[int(own)+1:], since); w != nil {
					g.Broken = append(g.Broken, l.finding(p, i, "delivered with priority %d before %s with priority %d, which was confirmed %v before that was chosen",
						own, l.events[w.published].Message(), l.events[w.published].Priority, since-l.events[w.confirmed].At))
				}
			}
			if w := waits[own]; f.confirmed >= 0 && (w == nil || f.confirmed < w.confirmed) {
				waits[own] = f
			}
		}
	}
	return g
}

// passedOver returns a message that waited at that time.
func (l *ledger) passedOver(higher []*fate, since time.Duration) *fate {
	for _, w := range higher {
		if w != nil && l.events[w.confirmed].At < since {
			return w
		}
	}
	return nil
}

// service is what one consumer was given and settled, in order.
type service struct {
	prefetch   int
	queue      string
	deliveries []int           // events
	settled    []time.Duration // when it began to settle one
}

// room returns when the consumer began to settle what made room for its kth delivery, counted from 0. Not known: there
// was room from the beginning, or nobody saw it settle.
func (r *service) room(k int) (since time.Duration, known bool) {
	if k < r.prefetch || k-r.prefetch >= len(r.settled) {
		return 0, false
	}
	return r.settled[k-r.prefetch], true
}

// served returns the consumers of these queues of which the prefetch is known.
func (l *ledger) served(these func(history.Queue) bool) []*service {
	by := map[string]*service{}
	var out []*service
	for i := range l.events {
		e := &l.events[i]
		if !these(l.spec(e.Queue)) {
			continue
		}
		r := by[e.Consumer]
		switch {
		case e.Kind == history.Opened && e.Prefetch > 0:
			r = &service{prefetch: int(e.Prefetch), queue: e.Queue}
			by[e.Consumer] = r
			out = append(out, r)
		case r == nil:
		case e.Kind == history.Delivered:
			r.deliveries = append(r.deliveries, i)
		case e.Kind == history.Deciding:
			r.settled = append(r.settled, e.At)
		default:
		}
	}
	return out
}
