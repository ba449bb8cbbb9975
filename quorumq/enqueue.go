package quorumq

// applyEnqueue appends a batch as if its messages had come one by one.
func (q *Queue) applyEnqueue(m Meta, c *Enqueue) {
	if c.First == 0 {
		q.effects.releaseSlots(m, len(c.Messages))
		q.reply.Code = CodeMalformed
		return
	}
	n, ok := q.member(c.Enqueuer.Node, c.Enqueuer.Epoch)
	switch {
	case !ok:
		q.effects.releaseSlots(m, len(c.Messages))
		q.reply.Code = CodeFenced
		return
	case c.First > n.next: // PUB-6
		q.effects.releaseSlots(m, len(c.Messages))
		q.reply.Code, q.reply.Next = CodeGap, n.next
		return
	}
	n.trim(c.Answered)
	var u unit
	for i := range c.Messages {
		seq := c.First + Seq(i)
		if whole := u.next(c.Messages[i:], seq < n.next); whole != nil {
			u.refused = q.refusesAll(whole)
		}
		body := BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)}
		if seq < n.next {
			q.effects.release(body)
			if n.refuses(seq) {
				q.refused = append(q.refused, seq)
			}
			continue
		}
		n.next = seq + 1
		if q.enqueueNew(body, &c.Messages[i], &u) {
			continue
		}
		q.refused = append(q.refused, seq)
		n.refused = append(n.refused, seq)
	}
	q.reply.Refused = q.refused
}

// enqueueNew decides about a message whose number is new: false if it is refused, now or
// when its producer sent it before.
func (q *Queue) enqueueNew(body BodyRef, nm *NewMessage, u *unit) bool {
	if u.joined {
		return q.enqueueJoined(body, nm, u)
	}
	if known, refused := q.producers.repeated(nm); known {
		q.stats.repeats++
		q.effects.release(body)
		return !refused
	}
	stored := q.enqueueOne(body, nm)
	if stored {
		q.reply.Stored++
	}
	q.producers.decided(nm, stored, q.now)
	return stored
}

// enqueueOne stores one message of a publisher, or tells that a limit refuses it or that
// it is a void.
func (q *Queue) enqueueOne(body BodyRef, nm *NewMessage) bool {
	if nm.Size == VoidSize { // PUB-5
		q.effects.release(body)
		return false
	}
	if q.refuses() && q.length().exceeds(&q.config, 1, uint64(nm.Size)) {
		q.refuse(body, nm)
		return false
	}
	q.admit(body, nm)
	return true
}

// refusesAll tells whether a unit is refused: one of its messages is a void, or a limit has
// no room for all of them.
func (q *Queue) refusesAll(messages []NewMessage) bool {
	size := uint64(0)
	for i := range messages {
		if messages[i].Size == VoidSize {
			return true
		}
		size += uint64(messages[i].Size)
	}
	return q.refuses() && q.length().exceeds(&q.config, uint64(len(messages)), size)
}

// enqueueJoined stores or refuses one message of a unit. What has been decided about the
// unit holds for all of it, also if a limit is reached on the way: it may be exceeded by
// that one unit.
func (q *Queue) enqueueJoined(body BodyRef, nm *NewMessage, u *unit) bool {
	switch {
	case !u.refused:
		q.reply.Stored++
		q.admit(body, nm)
	case nm.Size == VoidSize:
		q.effects.release(body)
	default:
		q.refuse(body, nm)
	}
	return !u.refused
}
