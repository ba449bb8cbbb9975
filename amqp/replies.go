package amqp

import (
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/message"
)

// openReplies registers the channel's consumer of replies (AM-3). Its address stays the same until
// it is cancelled.
func (ch *channel) openReplies(m *wire.BasicConsume, x *consumer) error {
	switch {
	case !m.NoAck:
		return refuse(wire.PreconditionFailed, m.ID(), "reply consumer cannot acknowledge")
	case ch.replies != nil:
		return refuse(wire.PreconditionFailed, m.ID(), "reply consumer already set")
	}
	c, address, err := ch.c.s.b.ConsumeReplies(ch.c.ctx, broker.Consume{VHost: ch.c.vhost, Tag: x.tag, Wake: x.wake, Buffer: ch.c.buffer})
	if err != nil {
		return faultOf(err, m.ID())
	}
	ch.c.s.counters.consumers.Add(1)
	x.c, x.address = c, address
	ch.replies = x
	return nil
}

// ownReplies puts the address of the channel's replies into a request that asks for it.
func (ch *channel) ownReplies(m *message.Message) error {
	if m.ReplyTo != names.ReplyTo {
		return nil
	}
	if ch.replies == nil {
		return refuse(wire.PreconditionFailed, wire.BasicPublishID, "fast reply consumer does not exist")
	}
	m.ReplyTo = ch.replies.address
	return nil
}

// declareReplies answers a declare of a reply address, by which clients ask whether the requester
// still exists. The declare never makes a queue.
func (ch *channel) declareReplies(m *wire.QueueDeclare) error {
	if !ch.c.s.b.ReplyExists(ch.c.ctx, ch.c.vhost, m.Queue) {
		return refuse(wire.NotFound, m.ID(), "no queue '%s' in vhost '%s'", m.Queue, ch.c.vhost)
	}
	return ch.answer(m.NoWait, &wire.QueueDeclareOK{Queue: m.Queue, ConsumerCount: 1})
}
