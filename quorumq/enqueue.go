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
		q.lookAhead(&u, c.Messages[i:], seq < n.next)
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
	if q.refuses() && q.full(nm.Size) {
		q.refuse(body, nm)
		return false
	}
	q.admit(body, nm)
	return true
}

// refuse does with a message that a limit refuses what the queue's overflow asks for.
func (q *Queue) refuse(body BodyRef, nm *NewMessage) {
	q.stats.refused++
	if q.config.Overflow == OverflowRejectPublishDLX { // LEN-5
		h := held{message: q.newMessage(body, nm)}
		q.discard(&h, ReasonMaxLen)
	} else {
		q.effects.release(body)
	}
}

// refuses tells whether what would exceed a limit is refused, instead of making room for it.
func (q *Queue) refuses() bool {
	c := &q.config
	return c.Overflow != OverflowDropHead || c.apart() && int64(q.backlog.set.len()) >= c.BacklogLimit // DL-20
}

// full tells whether one more message of this size would exceed a limit (LEN-4).
func (q *Queue) full(size uint32) bool {
	return q.exceeds(1, uint64(size))
}

// Full tells whether a limit leaves no room for one more message with a body (LEN-7).
func (q *Queue) Full() bool { return q.exceeds(1, 1) }

// exceeds tells whether so much more would exceed a limit (LEN-2, LEN-8).
func (q *Queue) exceeds(messages, size uint64) bool {
	n, bytes := q.counted()
	c := &q.config
	return c.MaxLength >= 0 && n+messages > uint64(c.MaxLength) ||
		c.MaxLengthBytes >= 0 && bytes+size > uint64(c.MaxLengthBytes) || q.exceedsTotal(messages)
}

// exceedsTotal tells whether so many more would exceed the limit of all messages (LEN-8).
func (q *Queue) exceedsTotal(messages uint64) bool {
	n, _ := q.counted()
	limit := q.config.MaxLengthTotal
	return limit >= 0 && n+uint64(q.subs.unacked.messages)+messages > uint64(limit)
}

func (q *Queue) newMessage(body BodyRef, nm *NewMessage) message {
	level := min(nm.Priority, levels-1) // PR-1
	return message{
		ord:   q.store.ready.nextOrd<<ordBits | uint64(level),
		index: body.Index,
		slot:  body.Slot,
		at:    q.now,
		ttl:   max(nm.TTLMs, Unlimited),
		size:  nm.Size,
	}
}

// admit stores a message that no limit refuses, makes room for it by drop-head, and
// gives it to a consumer that waits.
func (q *Queue) admit(body BodyRef, nm *NewMessage) {
	q.stats.enqueued++
	m := q.newMessage(body, nm)
	if q.dissolving { // it was on its way when the queue was deleted
		h := held{message: m}
		q.discard(&h, ReasonQueueDeleted)
		return
	}
	waited := nm.until(q.now) == 0 && q.waitedFor()
	if !q.refuses() && !waited {
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
	q.granted = true
	q.dropHead()
	q.assign()
	q.enforce()
	q.granted = false
}

// waitedFor tells whether a new message that is ready goes to a consumer at once, before any
// limit looks at it (LEN-9). That of all messages counts those of consumers too (LEN-8).
func (q *Queue) waitedFor() bool {
	return q.config.Rules >= RulesThird && q.store.ready.len() == 0 && !q.exceedsTotal(1) && q.subs.waiters.any()
}

// limited tells whether the queue has a limit.
func (q *Queue) limited() bool {
	c := &q.config
	return c.MaxLength >= 0 || c.MaxLengthBytes >= 0 || c.MaxLengthTotal >= 0
}

// dropHead removes ready messages while a limit is exceeded (LEN-3). Those of what is ready
// wait for enforce: consumers come first (LEN-9).
func (q *Queue) dropHead() {
	if !q.limited() {
		return
	}
	if q.config.Rules < RulesThird {
		q.dropWhile(func() bool { return q.exceeds(0, 0) })
		return
	}
	q.dropWhile(func() bool { return q.exceedsTotal(0) })
	q.overfull = true
}

// enforce removes what is above a limit once consumers have been served, as far as the slice
// goes: the timer asks for the rest, also where more consumers wait than one command serves.
func (q *Queue) enforce() {
	if !q.overfull {
		return
	}
	q.overfull = false
	if !q.more {
		q.dropWhile(func() bool { return q.exceeds(0, 0) })
	}
}

// excess tells whether something is left that a limit removes.
func (q *Queue) excess() bool {
	return q.config.Rules >= RulesThird && q.limited() && !q.refuses() && q.exceeds(0, 0) && q.store.len() > 0
}

func (q *Queue) dropWhile(exceeded func() bool) {
	for !q.refuses() && exceeded() && q.store.len() > 0 && q.mayDrop() {
		h, _ := q.store.takeVictim(&q.config)
		q.discard(&h, ReasonMaxLen)
	}
}

// mayDrop tells whether one more victim may be taken: one for a message that comes, and a slice
// for all else of the entry, as when a limit was lowered.
func (q *Queue) mayDrop() bool {
	switch {
	case q.config.Rules < RulesThird:
	case q.granted:
		q.granted = false
	case q.handled < ExpireSlice:
		q.handled++
	default:
		return false
	}
	return true
}
