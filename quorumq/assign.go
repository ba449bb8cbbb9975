package quorumq

// AssignChunk limits the messages that one command assigns; Effects.Timer asks for the rest.
const AssignChunk = 4096

// assign gives ready messages to waiting consumers (DEL-2).
func (q *Queue) assign() {
	for {
		m := q.store.ready.next(&q.config)
		if m == nil {
			return
		}
		if m.expired(q.config.MessageTTLMs, q.now) {
			// More was due than one command handles; setTimer asks for the rest (TTL-2).
			return
		}
		if q.assignedN == AssignChunk {
			q.more = q.subs.waiters.any()
			return
		}
		c := q.subs.waiters.next()
		if c == nil {
			return
		}
		h := q.store.ready.popNext(&q.config)
		q.effects.Deliver = append(q.effects.Deliver, q.give(c, &h))
		q.assignedN++
		q.subs.waiters.wake(c)
	}
}

// give assigns a message that has just been removed from the ready ones.
func (q *Queue) give(c *consumer, h *held) Delivery {
	a := q.subs.unacked.assign(c, h)
	q.stats.delivered++
	if h.acquired > 0 {
		q.stats.redelivered++
	}
	if c.autoAck { // DEL-4
		q.stats.settled++
		q.free(h.body(), h.annotations())
	} else {
		q.subs.deadlines.start(c, &a, q.now, q.config.ConsumerTimeoutMs)
		q.subs.unacked.hold(c, &a, q.subs.gen)
	}
	return a.delivery(c.key)
}
