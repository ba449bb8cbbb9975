package quorumq

// applyCheckout registers a consumer, or changes one.
func (q *Queue) applyCheckout(c *Checkout) {
	if c.Consumer.Tag == 0 {
		q.reply.Code = CodeMalformed
		return
	}
	n, ok := q.member(c.Consumer.Node, c.Consumer.Epoch)
	if !ok {
		q.reply.Code = CodeFenced
		return
	}
	if n.hasClosed(c.Consumer.Session) {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if q.drainDeleting {
		q.reply.Code = CodeDrainDeleting
		return
	}
	q.subs.trust(n, &q.nodes) // the node has sent a command, so it is there
	if q.subs.barred(c) {
		q.reply.Code = CodeExclusive
		return
	}
	con := q.subs.register(n, c.Consumer)
	q.subs.subscribe(con, c)
	q.idle.consumed = q.config.AutoDelete
	q.reply.LastMsgID = con.last
}

// applyCancel ends a subscription (CO-3).
func (q *Queue) applyCancel(c *Cancel) {
	con := q.subs.consumer(c.Consumer)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if con.subscribes() {
		q.idle.used = q.now
	}
	q.subs.unsubscribe(con)
	if c.Requeue {
		con.held.own(q.subs.gen)
		q.requeueRange(con, MsgIDRange{First: 1, Last: con.last}, false, BodyRef{}, Delay{})
		con.held.tidy()
		q.dropHead()
	}
	q.subs.settled(con)
	q.subs.elect()
}

// applyCredit raises a consumer's limit.
func (q *Queue) applyCredit(c *Credit) {
	con := q.subs.consumer(c.Consumer)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	con.limit = max(con.limit, c.Limit)
	q.subs.waiters.wake(con)
}

// applyGet assigns one message to the session itself (DEL-5); no prefetch limits it.
func (q *Queue) applyGet(c *Get) {
	n, ok := q.member(c.Session.Node, c.Session.Epoch)
	if !ok {
		q.reply.Code = CodeFenced
		return
	}
	if n.hasClosed(c.Session.Session) {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if q.drainDeleting {
		q.reply.Code = CodeDrainDeleting
		return
	}
	q.subs.trust(n, &q.nodes)
	q.idle.used = q.now
	if q.config.SingleActive {
		q.reply.Code = CodeSingleActive
		return
	}
	q.clearHead()
	m := q.store.ready.next(&q.config)
	if m != nil && !m.expired(q.config.MessageTTLMs, q.now) {
		con := q.subs.register(n, ConsumerKey{SessionKey: c.Session})
		h := q.store.ready.popNext(&q.config)
		con.autoAck, con.cancelled = c.AutoAck, false
		q.delivery = q.give(con, &h)
		q.reply.Delivery = &q.delivery
		q.stats.gets++
	} else {
		q.stats.emptyGets++
	}
	q.reply.Count = uint64(q.store.ready.len())
}
