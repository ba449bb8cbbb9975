package quorumq

// free records that nobody needs a message any more: it releases the body of the message, and the
// body of its annotations if no other message shares it.
func (q *Queue) free(body, annotations BodyRef) {
	q.effects.release(body)
	q.annotations.drop(annotations, &q.effects)
}

// discard removes a message from the queue as the dead-letter mode in force says (DL-2). The part
// that held the message has removed it already, so no part counts it any more.
func (q *Queue) discard(h *held, reason Reason) {
	mode := q.config.DeadLetter
	if q.drainDeleting && mode == DeadLetterAtMostOnce {
		mode = DeadLetterAtLeastOnce // a copy would be lost with the queue
	}
	q.stats.discarded[mode][reason]++ // DL-52
	switch mode {
	case DeadLetterAtLeastOnce:
		d := newDiscarded(h, reason, 0, q.now)
		q.backlog.push(&d, &q.effects)
		return
	case DeadLetterAtMostOnce:
		d := newDiscarded(h, reason, 0, q.now)
		q.effects.Copies = append(q.effects.Copies, q.backlog.public(&d)) // DL-11: in this order
	case DeadLetterDisabled:
	}
	q.free(h.body(), h.annotations())
}
