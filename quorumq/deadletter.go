package quorumq

// discard takes a message that has left the ready or assigned messages out of the
// queue, as the dead-letter mode in force says (DL-2). The message is no longer
// accounted for anywhere when discard is called.
func (q *Queue) discard(h *held, reason Reason) {
	mode := q.config.DeadLetter
	if q.dissolving && mode == DeadLetterAtMostOnce {
		mode = DeadLetterAtLeastOnce // a copy would be lost with the queue
	}
	q.stats.discarded[mode][reason]++ // DL-52
	switch mode {
	case DeadLetterAtLeastOnce:
		q.intoBacklog(h, reason, 0)
		return
	case DeadLetterAtMostOnce:
		d := q.record(h, reason, 0)
		q.effects.Copies = append(q.effects.Copies, q.public(&d)) // DL-11: in this order
	case DeadLetterDisabled:
	}
	q.release(h.body())
	q.dropAnnotations(h.annotations())
}

// intoBacklog keeps a message in the same entry, counted, with its body (DL-21), until the
// forwarder has brought it to where it goes.
func (q *Queue) intoBacklog(h *held, reason Reason, to uint16) {
	d := q.record(h, reason, to)
	d.seq = q.backlogNext
	q.backlogNext++
	q.backlog.push(uint64(d.seq), d)
	q.backlogBytes += uint64(d.size)
	q.effects.Backlog = true
}

func (q *Queue) record(h *held, reason Reason, to uint16) discarded {
	return discarded{
		index: h.index, slot: h.slot, size: h.size,
		annIndex: h.annIndex, annSlot: h.annSlot,
		failures: h.failures, acquired: h.acquired,
		reason: reason, to: to, at: q.now,
	}
}

func (q *Queue) public(d *discarded) Discarded {
	x := Discarded{
		Seq:           d.seq,
		Body:          d.body(),
		Annotations:   d.annotations(),
		Reason:        d.reason,
		DeliveryCount: d.failures,
		AcquiredCount: d.acquired,
		At:            d.at,
	}
	if d.to != 0 {
		x.To = &q.destinations[d.to].Destination
	}
	return x
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
		dst = append(dst, q.public(d))
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
			if gone.to != 0 {
				q.stats.moved++
				q.arrived(gone.to)
			} else {
				q.stats.confirmed++
			}
			q.backlogBytes -= uint64(gone.size)
			q.release(gone.body())
			q.dropAnnotations(gone.annotations())
		}
	}
}

// abandon drops the dead letters of the backlog when at-least-once has ended and that is what
// was asked for; messages that are moved stay (DL-27).
func (q *Queue) abandon(old *Config) {
	way := q.config.OnSwitch
	if way == SwitchUnset {
		way = old.OnSwitch
	}
	if way != SwitchDrop || old.DeadLetter != DeadLetterAtLeastOnce || q.config.DeadLetter == DeadLetterAtLeastOnce {
		return
	}
	for at := uint64(0); ; {
		next, ok := q.backlog.next(at)
		if !ok {
			return
		}
		at = next + 1
		if d, _ := q.backlog.get(next); d.to != 0 {
			continue
		}
		gone, _ := q.backlog.take(next)
		q.reply.Count++
		q.stats.abandoned++
		q.stats.abandonedBytes += uint64(gone.size)
		q.backlogBytes -= uint64(gone.size)
		q.release(gone.body())
		q.dropAnnotations(gone.annotations())
	}
}
