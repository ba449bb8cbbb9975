package quorumq

// applyEnqueue appends a batch as if its messages had arrived one by one.
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
			bytes, ok := unitBytes(whole) // a unit with a void does not count as one
			u.refused = !ok || q.refuses(uint64(len(whole)), bytes)
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
	if len(q.refused) > 0 && q.sealed() {
		q.reply.Code = CodeDrainDeleting
	}
}

// enqueueNew decides about a message whose number is new. It returns false if the message is a
// void, or is refused now, or was refused when its producer sent it before. A decision about a unit
// holds for all its messages, even if a limit is reached within the unit; the queue may exceed the
// limit by that one unit.
func (q *Queue) enqueueNew(body BodyRef, nm *NewMessage, u *unit) bool {
	if known, refused := q.producers.repeated(nm); known {
		q.stats.repeats++
		q.effects.release(body)
		return !refused
	}
	stored := false
	switch {
	case nm.Size == VoidSize: // PUB-5
		q.effects.release(body)
	case q.sealed():
		q.stats.refused++
		q.effects.release(body)
	case u.refused, !u.joined && q.refuses(1, uint64(nm.Size)):
		q.refuse(body, nm)
	default:
		stored = true
		q.admit(body, nm)
		q.reply.Stored++
	}
	q.producers.decided(nm, stored, q.now)
	return stored
}
