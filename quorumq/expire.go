package quorumq

// expireDue handles messages whose time has come, wherever they are, in the order of their times,
// as many as the slice allows. Messages that expire go in the order of (expiry, enqueue ordinal)
// (TTL-5, DL-11). Delayed messages become ready (DR-3); one that would also expire at that time
// expires. It also ends sessions of nodes that were unreachable for too long (DC-1).
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

// clearHead expires due messages until the message that would be delivered next is not due. A Get
// is answered only once, so the answer must not be "empty" just because a slice was used up. One
// entry still handles fewer than ExpireChunk messages.
func (q *Queue) clearHead() {
	if q.config.Rules < RulesThird {
		return
	}
	for m := q.store.ready.next(&q.config); m != nil && m.expired(q.config.MessageTTLMs, q.now) && q.budget.spent < ExpireChunk && q.handleFirst(); m = q.store.ready.next(&q.config) {
		q.budget.spent++
	}
}

// handleFirst handles what is due first. It returns false if nothing is.
func (q *Queue) handleFirst() bool {
	h, what := q.store.handleDue(q.now, &q.config)
	if what == handledExpiry {
		q.stats.expired++
		q.discard(&h, ReasonExpired)
	}
	return what != handledNothing
}

// drainDelete discards up to limit messages, and returns how many more it could have discarded.
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
