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
	if nm.Past != nil {
		q.admitPast(m, nm)
	} else if !q.admitNew(m, nm) {
		return
	}
	q.budget.granted = true
	q.dropHead()
	q.assign()
	q.enforce()
	q.budget.granted = false
}

// admitNew stores a message at the end of its level, or until its time; false: it is larger than the queue may be.
func (q *Queue) admitNew(m message, nm *NewMessage) bool {
	waited := nm.until(q.now) == 0 && q.waitedFor()
	if !waited && !q.config.refuses(q.backlog.set.len()) {
		if limit := q.config.MaxLengthBytes; limit >= 0 && int64(m.size) > limit {
			h := held{message: m} // LEN-2: it is its own victim
			q.discard(&h, ReasonMaxLen)
			return false
		}
	}
	if until := nm.until(q.now); until != 0 {
		m.ord = uint64(m.level())
		q.store.delay(&held{message: m}, until, &q.config)
		return true
	}
	q.store.ready.nextOrd++
	q.store.push(&m, &q.config)
	return true
}

// admitPast stores a message where it was in the queue that it comes from.
func (q *Queue) admitPast(m message, nm *NewMessage) {
	p := nm.Past
	h := held{message: m, failures: p.DeliveryCount, acquired: p.AcquiredCount}
	h.at = min(p.At, q.now)
	until := nm.until(q.now)
	fresh := p.AcquiredCount == 0 && p.DeliveryCount == 0
	if p.To != nil {
		// With more destinations than a queue may have, the message stays here.
		if to := q.backlog.destinationOf(*p.To); to != nil {
			q.backlog.send(&h, to, q.now, &q.effects)
			return
		}
	}
	switch {
	case p.Reason != 0: // whatever the mode is now: it waits like a backlog that the mode has left (DL-27)
		q.stats.discarded[DeadLetterAtLeastOnce][p.Reason]++
		d := newDiscarded(&h, p.Reason, 0, q.now)
		q.backlog.push(&d, &q.effects)
	case fresh && until != 0:
		h.ord = uint64(h.level())
		q.store.delay(&h, until, &q.config)
	case fresh:
		q.store.ready.nextOrd++
		q.store.push(&h.message, &q.config)
	case until != 0:
		q.store.ready.nextOrd++
		q.store.delay(&h, until, &q.config)
	default:
		q.store.ready.nextOrd++
		q.store.pushReturned(&h, &q.config)
	}
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
