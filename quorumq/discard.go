package quorumq

// free says that nobody needs a message any more: its body goes, and that of its annotations with
// the last message that shares it.
func (q *Queue) free(body, notes BodyRef) {
	q.effects.release(body)
	q.dropAnnotations(notes)
}

// dropAnnotations counts a message less that has this body of annotations.
func (q *Queue) dropAnnotations(notes BodyRef) {
	if q.annotations.drop(notes) {
		q.effects.release(notes)
	}
}

// discard takes a message out of the queue, as the dead-letter mode in force says (DL-2). It has
// left the part that held it: it is accounted for nowhere when discard is called.
func (q *Queue) discard(h *held, reason Reason) {
	mode := q.config.DeadLetter
	if q.dissolving && mode == DeadLetterAtMostOnce {
		mode = DeadLetterAtLeastOnce // a copy would be lost with the queue
	}
	q.stats.discarded[mode][reason]++ // DL-52
	switch mode {
	case DeadLetterAtLeastOnce:
		// In the same entry, counted, with its body (DL-21).
		q.backlog.push(newDiscarded(h, reason, 0, q.now))
		q.effects.Backlog = true
		return
	case DeadLetterAtMostOnce:
		d := newDiscarded(h, reason, 0, q.now)
		q.effects.Copies = append(q.effects.Copies, q.backlog.public(&d)) // DL-11: in this order
	case DeadLetterDisabled:
	}
	q.free(h.body(), h.annotations())
}

// send keeps a message in the backlog until the forwarder has brought it to its destination; that
// is no death (G-13).
func (q *Queue) send(h *held, to *destination) {
	q.backlog.send(h, to, q.now)
	q.effects.Backlog = true
}

func (q *Queue) expireOne(h *held) {
	q.stats.expired++
	q.discard(h, ReasonExpired)
}
