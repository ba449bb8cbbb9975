package quorumq

// admit stores a message that no limit refuses, makes room for it by drop-head, and gives it to a
// waiting consumer.
func (q *Queue) admit(body BodyRef, nm *NewMessage) {
	q.stats.enqueued++
	m := q.store.ready.newMessage(body, nm, q.now)
	if q.drainDeleting { // it was in flight when the queue was deleted
		h := held{message: m}
		q.discard(&h, ReasonQueueDeleted)
		return
	}
	waited := nm.until(q.now) == 0 && q.waitedFor()
	if !waited && !q.config.refuses(q.backlog.set.len()) {
		if limit := q.config.MaxLengthBytes; limit >= 0 && int64(m.size) > limit {
			h := held{message: m} // LEN-2: it is its own victim
			q.discard(&h, ReasonMaxLen)
			return
		}
	}
	if until := nm.until(q.now); until != 0 {
		m.ord = uint64(m.level())
		q.store.delay(&held{message: m}, until, &q.config)
	} else {
		q.store.ready.nextOrd++
		q.store.push(&m, &q.config)
	}
	q.budget.granted = true
	q.dropHead()
	q.assign()
	q.enforce()
	q.budget.granted = false
}

// waitedFor reports whether a new ready message goes to a consumer at once, before the limits apply
// (LEN-9). Only the limit of all messages applies first, because it also counts what consumers hold
// (LEN-8).
func (q *Queue) waitedFor() bool {
	return q.config.Rules >= RulesThird && q.store.ready.len() == 0 && !q.length().exceedsTotal(&q.config, 1) && q.subs.waiters.any()
}

// refuse handles a message that a limit refuses, as the queue's overflow mode says.
func (q *Queue) refuse(body BodyRef, nm *NewMessage) {
	q.stats.refused++
	if q.config.Overflow == OverflowRejectPublishDLX { // LEN-5
		h := held{message: q.store.ready.newMessage(body, nm, q.now)}
		q.discard(&h, ReasonMaxLen)
	} else {
		q.effects.release(body)
	}
}
