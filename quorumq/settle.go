package quorumq

import (
	"cmp"
	"slices"
)

// applySettle takes messages off the queue (DEL-8 accept, DEL-6).
func (q *Queue) applySettle(c *Settle) {
	con := q.consumer(c.Consumer)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	had := con.held.live
	q.settleRanges(con, c.Ranges)
	q.tellHeld(con, had)
}

// tellHeld answers for a decision of a consumer that had so many messages: whether it held any
// of those that it decided about (DEL-6).
func (q *Queue) tellHeld(c *consumer, had int) {
	if c.held.live == had {
		q.reply.Code = CodeNotHeld
	}
}

func (q *Queue) settleRanges(con *consumer, ranges []MsgIDRange) {
	w := &con.held
	w.own(q.gen)
	for _, r := range ranges {
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			a := &w.items[i]
			if a.isRemoved() {
				continue
			}
			q.unassign(&a.held)
			q.stats.settled++
			q.free(a.body(), a.annotations())
			a.remove()
			w.live--
		}
	}
	w.tidy()
	q.answerLate(con, ranges)
	q.settledSome(con)
}

// settledSome lets a consumer that holds less go on, or go.
func (q *Queue) settledSome(c *consumer) {
	if c.held.live == 0 && c.cancelled {
		q.dismiss(c)
		return
	}
	q.wake(c)
	if c.standby && c == q.active && c.held.live == 0 {
		q.elect() // SAC-2
	}
}

// applyReturn gives messages back in delivery order (DEL-1).
func (q *Queue) applyReturn(m Meta, c *Return) {
	con, notes := q.outcome(m, c.Consumer, c.HasAnnotations)
	if con == nil {
		return
	}
	had := con.held.live
	for _, r := range q.ascending(c.Ranges) {
		q.takeBack(con, r, c.Failed, notes, c.Delay)
	}
	q.tellHeld(con, had)
	q.answerLate(con, c.Ranges)
	q.outcomeDone(con, notes)
	q.dropHead()
}

// takeBack returns what a consumer holds of a range.
func (q *Queue) takeBack(c *consumer, r MsgIDRange, failed bool, notes BodyRef, d Delay) {
	w := &c.held
	for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
		if a := &w.items[i]; !a.isRemoved() {
			h := q.takeHeld(w, a, notes)
			q.giveBack(&h, failed, d)
		}
	}
}

// applyDiscard dead-letters messages in the order given (DL-11).
func (q *Queue) applyDiscard(m Meta, c *Discard) {
	con, notes := q.outcome(m, c.Consumer, c.HasAnnotations)
	if con == nil {
		return
	}
	w := &con.held
	had := w.live
	for _, r := range c.Ranges {
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			if a := &w.items[i]; !a.isRemoved() {
				h := q.takeHeld(w, a, notes)
				h.count(c.Failed)
				q.discard(&h, ReasonRejected)
			}
		}
	}
	q.tellHeld(con, had)
	q.answerLate(con, c.Ranges)
	q.outcomeDone(con, notes)
}

// outcome starts a Return or Discard: its consumer, and its body of annotations. That
// body is counted once for the command itself until outcomeDone.
func (q *Queue) outcome(m Meta, k ConsumerKey, annotated bool) (*consumer, BodyRef) {
	var notes BodyRef
	if annotated {
		notes = BodyRef{Index: m.Index, Slot: m.FirstSlot}
	}
	con := q.consumer(k)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		if annotated {
			q.effects.release(notes)
		}
		return nil, notes
	}
	q.annotations.share(notes)
	con.held.own(q.gen)
	return con, notes
}

func (q *Queue) outcomeDone(c *consumer, notes BodyRef) {
	q.dropAnnotations(notes)
	c.held.tidy()
	q.settledSome(c)
}

// takeHeld takes a message from its consumer; new annotations replace those it has
// (DEL-11).
func (q *Queue) takeHeld(w *window, a *assigned, notes BodyRef) held {
	h := a.held
	q.unassign(&h)
	a.remove()
	w.live--
	if notes != (BodyRef{}) {
		q.annotations.share(notes)
		q.dropAnnotations(h.annotations())
		h.annIndex, h.annSlot = notes.Index, notes.Slot
	}
	return h
}

// leaving is a message on its way from a consumer that has gone back to the queue.
type leaving struct {
	assigned
	unsent bool
}

// has tells whether a message is one of them.
func (u *Unsent) has(c *consumer, m MsgID) bool {
	return c.key.Tag == u.Tag && slices.ContainsFunc(u.Ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
}

// giveBack puts a message that its consumer held into the returned list, unless it has
// failed too often (DEL-9), its time is over (TTL-3), or it is to wait (DR-1, DR-4, DR-5).
func (q *Queue) giveBack(h *held, failed bool, d Delay) {
	h.count(failed)
	switch limit := q.config.DeliveryLimit; {
	case failed && limit >= 0 && int64(h.failures) > limit:
		q.stats.limitHits++
		if q.config.DeadLetter == DeadLetterDisabled {
			q.effects.Dropped++
		}
		q.discard(h, ReasonDeliveryLimit)
	case h.expired(q.config.MessageTTLMs, q.now):
		q.expireOne(h)
	default:
		q.stats.returned++
		if failed {
			q.stats.returnedFailed++
		}
		until := d.until(q.now)
		if r := &q.config.Retry; until == 0 && r.applies(failed) {
			until = after(q.now, r.wait(h.failures, h.seed()))
		}
		if until > q.now {
			q.store.delay(h, until, &q.config)
		} else {
			q.store.pushReturned(h, &q.config)
		}
	}
}

// ascending returns the ranges in ascending order, without copying if they are.
func (q *Queue) ascending(rs []MsgIDRange) []MsgIDRange {
	byFirst := func(a, b MsgIDRange) int { return cmp.Compare(a.First, b.First) }
	if slices.IsSortedFunc(rs, byFirst) {
		return rs
	}
	q.ranges = append(q.ranges[:0], rs...)
	slices.SortFunc(q.ranges, byFirst)
	return q.ranges
}
