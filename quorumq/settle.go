package quorumq

// applySettle removes messages from the queue (DEL-8 accept, DEL-6).
func (q *Queue) applySettle(c *Settle) {
	con := q.subs.consumer(c.Consumer)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	had := con.held.live
	q.settleRanges(con, c.Ranges)
	q.reply.decided(con.held.live < had)
}

// settleRanges removes from the queue what a consumer holds of ranges.
func (q *Queue) settleRanges(con *consumer, ranges []MsgIDRange) {
	w := &con.held
	w.own(q.subs.gen)
	for _, r := range ranges {
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			a := &w.items[i]
			if a.isRemoved() {
				continue
			}
			q.subs.unacked.remove(a.size)
			q.stats.settled++
			q.free(a.body(), a.annotations())
			w.remove(a)
		}
	}
	w.tidy()
	q.subs.answerLate(con, ranges)
	q.subs.settled(con)
}

// applyRequeue returns messages in delivery order (DEL-1).
func (q *Queue) applyRequeue(m Meta, c *Requeue) {
	con, annotations := q.outcome(m, c.Consumer, c.HasAnnotations)
	if con == nil {
		return
	}
	had := con.held.live
	for _, r := range ascending(c.Ranges, &q.ranges) {
		q.requeueRange(con, r, c.Failed, annotations, c.Delay)
	}
	q.reply.decided(con.held.live < had)
	q.subs.answerLate(con, c.Ranges)
	q.annotations.drop(annotations, &q.effects)
	con.held.tidy()
	q.subs.settled(con)
	q.dropHead()
}

// requeueRange requeues what a consumer holds of a range.
func (q *Queue) requeueRange(c *consumer, r MsgIDRange, failed bool, annotations BodyRef, d Delay) {
	w := &c.held
	for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
		if a := &w.items[i]; !a.isRemoved() {
			h := q.unassign(w, a, annotations)
			q.requeue(&h, failed, d)
		}
	}
}

// applyDiscard dead-letters messages in the order given (DL-11).
func (q *Queue) applyDiscard(m Meta, c *Discard) {
	con, annotations := q.outcome(m, c.Consumer, c.HasAnnotations)
	if con == nil {
		return
	}
	w := &con.held
	had := w.live
	for _, r := range c.Ranges {
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			if a := &w.items[i]; !a.isRemoved() {
				h := q.unassign(w, a, annotations)
				h.count(c.Failed)
				q.discard(&h, ReasonRejected)
			}
		}
	}
	q.reply.decided(con.held.live < had)
	q.subs.answerLate(con, c.Ranges)
	q.annotations.drop(annotations, &q.effects)
	con.held.tidy()
	q.subs.settled(con)
}

// outcome begins a Requeue or Discard: it returns the consumer and the body of annotations. That
// body is counted once for the command itself, which drops it at its end.
func (q *Queue) outcome(m Meta, k ConsumerKey, annotated bool) (*consumer, BodyRef) {
	var annotations BodyRef
	if annotated {
		annotations = BodyRef{Index: m.Index, Slot: m.FirstSlot}
	}
	con := q.subs.consumer(k)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		if annotated {
			q.effects.release(annotations)
		}
		return nil, annotations
	}
	q.annotations.share(annotations)
	con.held.own(q.subs.gen)
	return con, annotations
}

// unassign removes a message from its consumer. New annotations replace earlier ones (DEL-11).
func (q *Queue) unassign(w *window, a *assigned, annotations BodyRef) held {
	h := a.held
	q.subs.unacked.remove(h.size)
	w.remove(a)
	if annotations != (BodyRef{}) {
		q.annotations.share(annotations)
		q.annotations.drop(h.annotations(), &q.effects)
		h.annIndex, h.annSlot = annotations.Index, annotations.Slot
	}
	return h
}

// applyExtend moves ack deadlines (CT-5).
func (q *Queue) applyExtend(c *Extend) {
	con := q.subs.consumer(c.Consumer)
	switch {
	case c.TimeoutMs <= 0:
		q.reply.Code = CodeMalformed
	case con == nil:
		q.reply.Code = CodeUnknownConsumer
	default:
		q.reply.Count = con.extend(c.Ranges, ackDeadline(q.now, c.TimeoutMs), q.subs.gen)
	}
}
