package check

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/chaos/history"
)

// noLoss: what was confirmed, and what was delivered at all, ends in a way that the history shows:
// its last consumer acked it, or it is in the dead-letter queue, or its TTL ended where nobody
// collects dead letters (PUB-7). So a message that was delivered once and then vanished is found,
// and a discard that took effect though its commit was never seen. What comes back when it has died
// is acked in the end; what dies where dead letters are sent at most once may be anywhere (DL-10).
func noLoss(l *ledger) Guarantee {
	g := Guarantee{Name: "no confirmed message is lost", Rule: "PUB-7"}
	for _, p := range l.places {
		f := l.fates[p]
		if f.confirmed < 0 && len(f.deliveries) == 0 || l.spec(p.queue).Moved || l.deleted[p.queue] {
			continue
		}
		if undrained := l.undrained(p.queue); undrained != "" {
			g.Missing = "queue " + undrained + " was not drained"
			continue
		}
		at, why := l.end(p)
		if why == "" {
			g.Checked++
			continue
		}
		if l.mayBeGone(f, p.queue) {
			continue
		}
		targets := targetsOf(l.spec(p.queue))
		if len(targets) == 0 || l.comesBack(p.queue) {
			g.Checked++
			g.Broken = append(g.Broken, l.finding(p, at, "%s", why))
			continue
		}
		for _, to := range targets {
			switch lacks, undrained := l.lacks(to, p.Message, 0); {
			case undrained != "":
				g.Missing = "dead-letter queue " + undrained + " was not drained"
			case lacks != "":
				g.Checked++
				g.Broken = append(g.Broken, l.finding(p, at, "%s, and not in %s", why, lacks))
			default:
				g.Checked++
			}
		}
	}
	return g
}

// mayBeGone reports whether a message may rightly be in no queue: dropped at its expiry, or dead and lost where that is
// allowed.
func (l *ledger) mayBeGone(f *fate, queue string) bool {
	spec := l.spec(queue)
	if !spec.AtMostOnce {
		return spec.DeadTo == "" && l.ttl(f, queue) > 0
	}
	return l.ttl(f, queue) > 0 || l.settled(f, history.Discard) || spec.DeliveryLimit >= 0 && len(f.deliveries) > 0
}

// end returns nothing if the last consumer acked the message, else the last event of the message
// in the queue and its outcome as far as the queue shows.
func (l *ledger) end(p place) (at int, why string) {
	f := l.fates[p]
	if len(f.deliveries) == 0 {
		return f.confirmed, "confirmed, and never delivered"
	}
	last := slices.MaxFunc(f.deliveries, func(a, b int) int { return cmp.Or(l.compareTurns(p.queue, a, b), cmp.Compare(a, b)) })
	to := l.events[last].Consumer
	for _, i := range f.deciding {
		if e := &l.events[i]; i > last && e.Consumer == to {
			switch e.Outcome {
			case history.Ack, history.Replace: // wholeTransactions judges what replaces it
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

// maxHops bounds how far dead letters are followed.
const maxHops = 8

// lacks returns the queue of a dead letter's way, from this one on, in which it should be and is not;
// or one of which that is unknown. Where nobody has seen it, it may have expired and gone on.
func (l *ledger) lacks(queue string, m history.Message, hops int) (lacks, undrained string) {
	if l.isIn(queue, m) {
		return "", ""
	}
	if !l.drained[queue] {
		return "", queue
	}
	targets := targetsOf(l.spec(queue))
	if len(targets) == 0 || l.spec(queue).TTL == 0 || hops == maxHops {
		return queue, ""
	}
	if l.spec(queue).AtMostOnce { // and been lost on the way
		return "", ""
	}
	for _, to := range targets {
		if lacks, undrained := l.lacks(to, m, hops+1); lacks != "" || undrained != "" {
			return lacks, undrained
		}
	}
	return "", ""
}

// isIn reports whether a consumer of the queue received the message.
func (l *ledger) isIn(queue string, m history.Message) bool {
	f := l.fates[place{queue, m}]
	return f != nil && len(f.deliveries) > 0
}
