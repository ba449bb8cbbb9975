package quorumq

import "slices"

// applyCheckout registers a consumer or changes it.
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
	if slices.Contains(n.closed, c.Consumer.Session) {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if q.dissolving {
		q.reply.Code = CodeDissolving
		return
	}
	q.trust(n) // it speaks, so it is there
	if q.barred(c) {
		q.reply.Code = CodeExclusive
		return
	}
	con := q.register(n, c.Consumer)
	q.leaveLine(con)
	if con.since == 0 {
		q.enrol(con)
	}
	con.cancelled = false // CO-3
	con.prefetch = c.Prefetch
	if c.Prefetch == 0 || c.Prefetch > MaxOutstanding {
		con.prefetch = MaxOutstanding
	}
	con.credit, con.limit = c.Credit, c.Limit
	con.autoAck, con.priority = c.AutoAck, c.Priority
	con.ownTimeout, con.timeout = c.HasTimeout, c.TimeoutMs
	q.setExclusive(con, c.Exclusive)
	q.consumed = q.config.AutoDelete
	q.reply.LastMsgID = con.last
	q.wake(con)
	q.contend(con)
}

// barred tells whether exclusive access stands against a checkout (CO-2).
func (q *Queue) barred(c *Checkout) bool {
	if q.exclusive != nil && q.exclusive.key != c.Consumer {
		return true
	}
	if !c.Exclusive {
		return false
	}
	for _, s := range q.order {
		for _, o := range s.consumers {
			if o.subscribes() && o.key != c.Consumer {
				return true
			}
		}
	}
	return false
}

// setExclusive notes whether a consumer bars others.
func (q *Queue) setExclusive(c *consumer, exclusive bool) {
	c.exclusive = exclusive
	switch {
	case exclusive:
		q.exclusive = c
	case q.exclusive == c:
		q.exclusive = nil
	}
}

// applyCancel ends a subscription (CO-3).
func (q *Queue) applyCancel(c *Cancel) {
	con := q.consumer(c.Consumer)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if con.subscribes() {
		q.used = q.now
	}
	con.cancelled, con.late = true, nil
	q.setExclusive(con, false)
	q.leaveLine(con)
	q.resign(con)
	if c.Requeue {
		con.held.own(q.gen)
		q.takeBack(con, MsgIDRange{First: 1, Last: con.last}, false, BodyRef{}, Delay{})
		con.held.tidy()
		q.dropHead()
	}
	q.settledSome(con)
	q.elect()
}

// applyCredit raises a consumer's limit.
func (q *Queue) applyCredit(c *Credit) {
	con := q.consumer(c.Consumer)
	if con == nil {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	con.limit = max(con.limit, c.Limit)
	q.wake(con)
}

// applyGet assigns one message to the session itself (DEL-5); prefetch does not bound
// it.
func (q *Queue) applyGet(c *Get) {
	n, ok := q.member(c.Session.Node, c.Session.Epoch)
	if !ok {
		q.reply.Code = CodeFenced
		return
	}
	if slices.Contains(n.closed, c.Session.Session) {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if q.dissolving {
		q.reply.Code = CodeDissolving
		return
	}
	q.trust(n)
	q.used = q.now
	if q.config.SingleActive {
		q.reply.Code = CodeSingleActive
		return
	}
	q.clearHead()
	m := q.store.ready.next(&q.config)
	if m != nil && !m.expired(q.config.MessageTTLMs, q.now) {
		con := q.register(n, ConsumerKey{SessionKey: c.Session})
		h := q.store.ready.takeNext(&q.config)
		con.autoAck, con.cancelled = c.AutoAck, false
		q.delivery = q.give(con, &h)
		q.reply.Delivery = &q.delivery
		q.stats.gets++
	} else {
		q.stats.emptyGets++
	}
	q.reply.Count = uint64(q.store.ready.len())
}
