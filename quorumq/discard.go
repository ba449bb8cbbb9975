package quorumq

// free says that nobody needs a message any more: its body goes, and that of its annotations with
// the last message that shares it.
func (q *Queue) free(body, annotations BodyRef) {
	q.effects.release(body)
	q.annotations.drop(annotations, &q.effects)
}

// discard takes a message out of the queue, as the dead-letter mode in force says (DL-2). It has
// left the part that held it: it is accounted for nowhere when discard is called.
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
