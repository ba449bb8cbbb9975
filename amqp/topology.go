package amqp

import (
	"context"
	"strings"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/names"
)

// exchangeMethod runs the methods of class exchange.
func (ch *channel) exchangeMethod(ctx context.Context, m wire.Method) (handled bool, err error) {
	c := ch.c
	switch m := m.(type) {
	case *wire.ExchangeDeclare:
		x := broker.Exchange{
			VHost: c.vhost, Name: m.Exchange, Type: m.Type, Durable: m.Durable, AutoDelete: m.AutoDelete,
			Internal: m.Internal, Arguments: m.Arguments,
		}
		if _, err := c.s.b.DeclareExchange(ctx, x, m.Passive); err != nil {
			return true, faultOf(err, m.ID())
		}
		return true, ch.answer(m.NoWait, &wire.ExchangeDeclareOK{})
	case *wire.ExchangeDelete:
		if err := c.s.b.DeleteExchange(ctx, c.vhost, m.Exchange, m.IfUnused); err != nil {
			return true, faultOf(err, m.ID())
		}
		return true, ch.answer(m.NoWait, &wire.ExchangeDeleteOK{})
	case *wire.ExchangeBind:
		b := broker.Binding{VHost: c.vhost, Source: m.Source, ToExchange: true, Destination: m.Destination, RoutingKey: m.RoutingKey, Arguments: m.Arguments}
		if _, err := c.s.b.Bind(ctx, b); err != nil {
			return true, faultOf(err, m.ID())
		}
		return true, ch.answer(m.NoWait, &wire.ExchangeBindOK{})
	case *wire.ExchangeUnbind:
		b := broker.Binding{VHost: c.vhost, Source: m.Source, ToExchange: true, Destination: m.Destination, RoutingKey: m.RoutingKey, Arguments: m.Arguments}
		if err := c.s.b.Unbind(ctx, b); err != nil {
			return true, faultOf(err, m.ID())
		}
		return true, ch.answer(m.NoWait, &wire.ExchangeUnbindOK{})
	}
	return false, nil
}

// queueMethod runs the methods of class queue.
func (ch *channel) queueMethod(ctx context.Context, m wire.Method) (handled bool, err error) {
	c := ch.c
	switch m := m.(type) {
	case *wire.QueueDeclare:
		return true, ch.declare(ctx, m)
	case *wire.QueueBind:
		b, err := ch.binding(m.Queue, m.ID())
		if err != nil {
			return true, err
		}
		b.Source, b.RoutingKey, b.Arguments = m.Exchange, ch.bindingKey(m.Queue, m.RoutingKey), m.Arguments
		if _, err := c.s.b.Bind(ctx, b); err != nil {
			return true, faultOf(err, m.ID())
		}
		return true, ch.answer(m.NoWait, &wire.QueueBindOK{})
	case *wire.QueueUnbind:
		b, err := ch.binding(m.Queue, m.ID())
		if err != nil {
			return true, err
		}
		b.Source, b.RoutingKey, b.Arguments = m.Exchange, ch.bindingKey(m.Queue, m.RoutingKey), m.Arguments
		if err := c.s.b.Unbind(ctx, b); err != nil {
			return true, faultOf(err, m.ID())
		}
		return true, ch.answer(false, &wire.QueueUnbindOK{})
	case *wire.QueuePurge:
		return true, ch.purge(ctx, m)
	case *wire.QueueDelete:
		return true, ch.delete(ctx, m)
	}
	return false, nil
}

// binding returns a binding to a queue. An empty name stands for the channel's last queue.
func (ch *channel) binding(queue string, id wire.MethodID) (broker.Binding, error) {
	name, err := ch.named(queue, id)
	return broker.Binding{VHost: ch.c.vhost, Destination: name}, err
}

// bindingKey returns the routing key of a binding: the queue's name if the client gives neither the
// name nor the key.
func (ch *channel) bindingKey(queue, key string) string {
	if queue == "" && key == "" {
		return ch.lastQueue
	}
	return key
}

// declare runs queue.declare. A passive declare without a name asks for the channel's last queue.
// Names that begin with names.ReplyTo never reach the catalog.
func (ch *channel) declare(ctx context.Context, m *wire.QueueDeclare) error {
	c := ch.c
	if strings.HasPrefix(m.Queue, names.ReplyTo) {
		return ch.declareReplies(m)
	}
	if m.Queue == "" && m.Passive {
		name, err := ch.named("", m.ID())
		if err != nil {
			return err
		}
		m.Queue = name
	}
	if err := ch.catchUp(m.ID()); err != nil {
		return err
	}
	d, err := c.s.b.DeclareQueue(ctx, broker.DeclareQueue{
		VHost: c.vhost, Name: m.Queue, Durable: m.Durable, Exclusive: m.Exclusive, AutoDelete: m.AutoDelete,
		Arguments: m.Arguments, Passive: m.Passive,
	})
	if err != nil {
		return faultOf(err, m.ID())
	}
	ch.lastQueue = d.Name
	return ch.answer(m.NoWait, &wire.QueueDeclareOK{
		Queue: d.Name, MessageCount: atMost32(d.Ready), ConsumerCount: atMost32(uint64(max(d.Consumers, 0))),
	})
}

// purge runs queue.purge. catchUp comes first, so that the count includes what this channel has
// published and settled.
func (ch *channel) purge(ctx context.Context, m *wire.QueuePurge) error {
	name, err := ch.named(m.Queue, m.ID())
	if err != nil {
		return err
	}
	if err := ch.catchUp(m.ID()); err != nil {
		return err
	}
	n, err := ch.c.s.b.PurgeQueue(ctx, ch.c.vhost, name)
	if err != nil {
		return faultOf(err, m.ID())
	}
	return ch.answer(m.NoWait, &wire.QueuePurgeOK{MessageCount: atMost32(n)})
}

// delete runs queue.delete. catchUp comes first: if-empty and if-unused must see the channel's own
// publishes and cancels.
func (ch *channel) delete(ctx context.Context, m *wire.QueueDelete) error {
	name, err := ch.named(m.Queue, m.ID())
	if err != nil {
		return err
	}
	if err := ch.catchUp(m.ID()); err != nil {
		return err
	}
	d, err := ch.c.s.b.DeleteQueue(ctx, ch.c.vhost, name, broker.Deletion{IfUnused: m.IfUnused, IfEmpty: m.IfEmpty})
	if err != nil {
		return faultOf(err, m.ID())
	}
	return ch.answer(m.NoWait, &wire.QueueDeleteOK{MessageCount: atMost32(d.Ready)})
}

// atMost32 caps a count at the range of a 32-bit field.
func atMost32(n uint64) uint32 { return uint32(min(n, 1<<32-1)) } // bounded
