package check

import "github.com/quorate/quorate/chaos/history"

// noLoss: what was confirmed, and what was delivered at all, ends in a way that the history shows:
// its last consumer acked it, or it is in the dead-letter queue, or its TTL ended where nobody
// collects dead letters (PUB-7). So a message that was delivered once and then vanished is found,
// and a discard that took effect though its commit was never seen.
func noLoss(l *ledger) Guarantee {
	g := Guarantee{Name: "no confirmed message is lost", Rule: "PUB-7"}
	for _, p := range l.places {
		f := l.fates[p]
		if f.confirmed < 0 && len(f.deliveries) == 0 || l.spec(p.queue).Moved || l.deleted[p.queue] {
			continue
		}
		if !l.drained[p.queue] {
			g.Missing = "queue " + p.queue + " was not drained"
			continue
		}
		at, why := l.end(f)
		if why == "" {
			g.Checked++
			continue
		}
		switch to := l.spec(p.queue).DeadTo; {
		case to == "" && l.ttl(f, p.queue) > 0: // dropped at its expiry, perhaps
		case to == "":
			g.Checked++
			g.Broken = append(g.Broken, l.finding(p, at, "%s", why))
		case l.isIn(to, p.Message):
			g.Checked++
		case !l.drained[to]:
			g.Missing = "dead-letter queue " + to + " was not drained"
		default:
			g.Checked++
			g.Broken = append(g.Broken, l.finding(p, at, "%s, and not in %s", why, to))
		}
	}
	return g
}

// end returns nothing if the last consumer acked the message, else the last event of the message
// in the queue and what became of it as far as the queue shows.
func (l *ledger) end(f *fate) (at int, why string) {
	if len(f.deliveries) == 0 {
		return f.confirmed, "confirmed, and never delivered"
	}
	last := f.deliveries[len(f.deliveries)-1]
	to := l.events[last].Consumer
	for _, i := range f.deciding {
		if e := &l.events[i]; i > last && e.Consumer == to {
			switch e.Outcome {
			case history.Ack:
				return i, ""
			case history.Discard:
				return i, "discarded by " + to
			case history.Requeue, history.Return:
				return i, "returned by " + to + ", not delivered again"
			}
		}
	}
	return last, "delivered to " + to + ", which did not settle it, not delivered again"
}

// isIn reports whether a consumer of the queue received the message.
func (l *ledger) isIn(queue string, m history.Message) bool {
	f := l.fates[place{queue, m}]
	return f != nil && len(f.deliveries) > 0
}
