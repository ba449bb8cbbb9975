package quorumq

// discard takes a message that has left the ready or assigned messages out of the
// queue, as the dead-letter mode in force says (DL-2). The message is no longer
// accounted for anywhere when discard is called.
func (q *Queue) discard(h *held, reason Reason) {
	d := discarded{
		index: h.index, slot: h.slot, size: h.size,
		annIndex: h.annIndex, annSlot: h.annSlot,
		failures: h.failures, acquired: h.acquired,
		reason: reason, at: q.now,
	}
	q.stats.discarded[q.config.DeadLetter][reason]++ // DL-52
	switch q.config.DeadLetter {
	case DeadLetterAtLeastOnce:
		// DL-21: in the same entry, counted, its body kept.
		d.seq = q.backlogNext
		q.backlogNext++
		q.backlog.push(uint64(d.seq), d)
		q.backlogBytes += uint64(d.size)
		q.effects.Backlog = true
		return
	case DeadLetterAtMostOnce:
		q.effects.Copies = append(q.effects.Copies, d.public()) // DL-11: in this order
	case DeadLetterDisabled:
	}
	q.release(h.body())
	q.dropAnnotations(h.annotations())
}

func (d *discarded) public() Discarded {
	return Discarded{
		Seq:           d.seq,
		Body:          d.body(),
		Annotations:   d.annotations(),
		Reason:        d.reason,
		DeliveryCount: d.failures,
		AcquiredCount: d.acquired,
		At:            d.at,
	}
}

// Backlog appends up to limit discarded messages with numbers above after, in the order
// of their discards (DL-29).
func (q *Queue) Backlog(dst []Discarded, after Seq, limit int) []Discarded {
	if after >= q.backlogNext {
		return dst
	}
	for d := range q.backlog.from(uint64(after) + 1) {
		if limit <= 0 {
			break
		}
		dst = append(dst, d.public())
		limit--
	}
	return dst
}

// BacklogSettled returns the watermark up to which every backlog number is settled:
// what a Transfer carries as Settled (DL-25).
func (q *Queue) BacklogSettled() Seq {
	if d := q.backlog.front(); d != nil {
		return d.seq - 1
	}
	return q.backlogNext - 1
}

// applyBacklogSettle removes forwarded messages, in any order (DL-21). Numbers that are
// settled or purged already are skipped.
func (q *Queue) applyBacklogSettle(c *BacklogSettle) {
	for _, r := range c.Ranges {
		last := min(r.Last, q.backlogNext-1)
		for s := r.First; s <= last; s++ {
			next, ok := q.backlog.next(uint64(s))
			if s = Seq(next); !ok || s > last {
				break
			}
			gone, _ := q.backlog.take(next)
			q.stats.confirmed++
			q.backlogBytes -= uint64(gone.size)
			q.release(gone.body())
			q.dropAnnotations(gone.annotations())
		}
	}
}
