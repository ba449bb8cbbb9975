package quorumq

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/id"
)

// requeue puts a message that a consumer held into the returned list, unless it has failed too
// often (DEL-9), its TTL is over (TTL-3), or it must wait (DR-1, DR-4, DR-5).
func (q *Queue) requeue(h *held, failed bool, d Delay) {
	h.count(failed)
	switch limit := q.config.DeliveryLimit; {
	case failed && limit >= 0 && int64(h.failures) > limit:
		q.stats.limitHits++
		if q.config.DeadLetter == DeadLetterDisabled {
			q.effects.Dropped++
		}
		q.discard(h, ReasonDeliveryLimit)
	case h.expired(q.config.MessageTTLMs, q.now):
		q.stats.expired++
		q.discard(h, ReasonExpired)
	default:
		q.stats.returned++
		if failed {
			q.stats.returnedFailed++
		}
		until := d.until(q.now)
		if r := &q.config.Retry; until == 0 && r.applies(failed) {
			until = after(q.now, r.wait(h.failures, h.seed()))
		}
		if until > q.now {
			q.store.delay(h, until, &q.config)
		} else {
			q.store.pushReturned(h, &q.config)
		}
	}
}

// requeueLeaving requeues the messages that consumers have lost, in the order in which they were
// delivered, over all consumers (DEL-8, DL-11). Consumers have gone or changed, so it also elects
// the active one again.
func (q *Queue) requeueLeaving(failed bool) {
	ls := q.subs.leaving
	slices.SortFunc(ls, func(a, b leaving) int { return cmp.Compare(a.number, b.number) })
	for i := range ls {
		l := &ls[i]
		q.subs.unacked.remove(l.size)
		q.requeue(&l.held, failed && !l.unsent, Delay{})
	}
	q.subs.leaving = ls[:0]
	q.subs.elect()
	q.dropHead()
}

// closeSessions ends sessions, and requeues what their consumers hold; the deliveries in unsent do
// not count as failed.
func (q *Queue) closeSessions(failed bool, ss []*session, unsent Unsent) {
	if len(ss) == 0 {
		return
	}
	if q.subs.close(ss, unsent) {
		q.idle.used = q.now
	}
	q.requeueLeaving(failed)
}

// member returns a node, and whether this epoch of it may send commands: not if a newer one has. If
// the epoch is newer than the known one, the sessions of earlier epochs are closed, because those
// processes are gone (DC-1).
func (q *Queue) member(name id.NodeID, epoch id.Epoch) (*node, bool) {
	n := q.nodes.of(name, epoch)
	return n, q.speaks(n, epoch)
}

// speaks reports whether this epoch of a node may send commands. A newer epoch replaces the known
// one.
func (q *Queue) speaks(n *node, epoch id.Epoch) bool {
	if epoch <= n.epoch {
		return epoch == n.epoch
	}
	q.nodes.clear(n) // not trust, because its consumers must not be put in line again
	n.renew(epoch)
	q.closeSessions(true, q.subs.sessionsOf(func(o *node) bool { return o == n }), Unsent{})
	return true
}

// timeOutNodes ends the sessions of nodes that were unreachable for too long. Their messages
// return, not as failed (DC-1).
func (q *Queue) timeOutNodes() {
	if d := q.nodes.nextDeadline(); d == 0 || d > q.now {
		return
	}
	late := q.subs.sessionsOf(func(n *node) bool { return n.lateAt(q.now) })
	q.subs.timeOut(late)
	q.closeSessions(false, late, Unsent{})
	q.nodes.clearLate(q.now)
}
