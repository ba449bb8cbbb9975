package quorumq

// expireDue handles messages whose time has come, wherever they stand, in the order of their
// times, as many as the slice allows: those that expire, in that of (expiry, enqueue ordinal)
// (TTL-5, DL-11), and delayed ones that are to be ready (DR-3); who does both at once expires.
// It also ends sessions of nodes that stayed unreachable for too long (DC-1).
func (q *Queue) expireDue() {
	q.store.tidy(&q.config)
	q.timeOutNodes()
	q.timeOutLeases()
	limit := q.slice()
	left := limit
	for left > 0 && !q.store.nothingDue(q.now) && q.handleFirst() {
		left--
	}
	if q.dissolving {
		left = q.dissolve(left)
	}
	q.handled += limit - left
	q.overfull = q.overfull || q.excess() // the rest of an earlier slice
}

// clearHead expires what is due until the message that would be delivered next is not: a Get
// is answered for good, and must not be told of an empty queue because a slice was used up.
// What one entry handles stays below ExpireChunk.
func (q *Queue) clearHead() {
	if q.config.Rules < RulesThird {
		return
	}
	for m := q.store.ready.next(&q.config); m != nil && m.expired(q.config.MessageTTLMs, q.now) && q.handled < ExpireChunk && q.handleFirst(); m = q.store.ready.next(&q.config) {
		q.handled++
	}
}

// handleFirst handles what is due first; false if nothing is.
func (q *Queue) handleFirst() bool {
	h, what := q.store.handleDue(q.now, &q.config)
	if what == handledExpiry {
		q.expireOne(&h)
	}
	return what != handledNothing
}

func (q *Queue) expireOne(h *held) {
	q.stats.expired++
	q.discard(h, ReasonExpired)
}

// due returns when something comes due first, 0 for never.
func (q *Queue) due() Time {
	if q.more || q.remains() {
		return q.now
	}
	first := q.store.firstDue()
	for _, t := range [...]Time{q.nodes.nextDeadline(), q.nextUnused(), q.subs.leases.due} {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// setTimer announces the first due time if it is earlier than what was announced, or if
// that has passed. A timer whose reason is gone just fires in vain: that is cheaper than
// to announce each change.
func (q *Queue) setTimer() {
	passed := q.timer == 0 || q.timer <= q.now
	if !passed && !q.more && q.store.nothingDue(q.timer-1) && q.nodes.suspects == 0 && q.config.ExpiresMs < 0 && !q.config.AutoDelete && !q.dissolving &&
		(q.subs.leases.due == 0 || q.subs.leases.due >= q.timer) {
		return
	}
	due := q.due()
	if passed {
		q.timer = due
		q.effects.Timer = due
		return
	}
	if due != 0 && due < q.timer {
		q.timer = due
		q.effects.Timer = due
	}
}
