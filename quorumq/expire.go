package quorumq

// expireDue handles messages whose time has come, wherever they stand, in the order of their
// times, as many as the slice allows: those that expire, in that of (expiry, enqueue ordinal)
// (TTL-5, DL-11), and delayed ones that are to be ready (DR-3); who does both at once expires.
// It also ends sessions of nodes that stayed unreachable for too long (DC-1).
func (q *Queue) expireDue() {
	q.store.tidy(&q.config)
	q.timeOutNodes()
	if n := q.subs.revokeDue(q.now); n > 0 { // CT-2
		q.stats.timeouts += uint64(n)
		q.requeueLeaving(false)
	}
	limit := q.budget.slice(q.config.Rules)
	left := limit
	for left > 0 && !q.store.nothingDue(q.now) && q.handleFirst() {
		left--
	}
	if q.drainDeleting {
		left = q.drainDelete(left)
	}
	q.budget.spent += limit - left
	q.overfull = q.overfull || q.excess() // the rest of an earlier slice
}

// clearHead expires what is due until the message that would be delivered next is not: a Get
// is answered once, and the answer must not be "empty" only because a slice was used up.
// What one entry handles stays below ExpireChunk.
func (q *Queue) clearHead() {
	if q.config.Rules < RulesThird {
		return
	}
	for m := q.store.ready.next(&q.config); m != nil && m.expired(q.config.MessageTTLMs, q.now) && q.budget.spent < ExpireChunk && q.handleFirst(); m = q.store.ready.next(&q.config) {
		q.budget.spent++
	}
}

// handleFirst handles what is due first; false if nothing is.
func (q *Queue) handleFirst() bool {
	h, what := q.store.handleDue(q.now, &q.config)
	if what == handledExpiry {
		q.stats.expired++
		q.discard(&h, ReasonExpired)
	}
	return what != handledNothing
}

// drainDelete discards up to limit messages and returns how many more it could have.
func (q *Queue) drainDelete(limit int) int {
	for ; limit > 0; limit-- {
		h, ok := q.store.popHead(&q.config)
		if !ok {
			break
		}
		q.discard(&h, ReasonQueueDeleted)
	}
	return limit
}
