package amqp

import (
	"cmp"
	"context"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/names"
)

// origin returns where the client's calls come from, for the audit.
func (c *conn) origin() audit.Origin {
	return audit.Origin{Protocol: "amqp", Address: c.nc.RemoteAddr().String(), Client: cmp.Or(c.client.name, c.client.product)}
}

// topologyMethod runs the methods of the classes exchange and queue. Those that change something
// are audited.
func (ch *channel) topologyMethod(m wire.Method) (handled bool, err error) {
	if class := m.ID().Class(); class != wire.ExchangeDeclareID.Class() && class != wire.QueueDeclareID.Class() {
		return false, nil
	}
	return ch.audited(m)
}

// audited runs a topology method, and audits it if it changes something. The audit gets the
// broker's error, but the client gets the fault that was derived from it. Therefore run sets
// handled and err itself, and the results of the calls are dropped.
func (ch *channel) audited(m wire.Method) (handled bool, err error) {
	run := func(ctx context.Context) error {
		if handled, err = ch.exchangeMethod(ctx, m); !handled {
			handled, err = ch.queueMethod(ctx, m)
		}
		return err
	}
	act, changes := ch.actOf(m)
	if !changes {
		_ = run(ch.c.ctx) // run has set err
		return handled, err
	}
	_ = ch.c.s.b.Audit.Audited(ch.c.ctx, act, func(ctx context.Context) error { return cause(run(ctx)) })
	return handled, err
}

// cause returns the broker's error behind a fault, or else err itself.
func cause(err error) error {
	if f, is := err.(*fault); is && f.cause != nil { //nolint:errorlint // faults are returned bare
		return f.cause
	}
	return err
}

// actOf describes the change that a method is about to make. It returns false if the method changes
// nothing.
func (ch *channel) actOf(m wire.Method) (audit.Act, bool) {
	act := func(op audit.Operation, kind, name string) audit.Act {
		return audit.Act{Operation: op, VHost: ch.c.vhost, Kind: kind, Name: name, From: ch.c.origin()}
	}
	last := func(name string) string { return cmp.Or(name, ch.lastQueue) }
	switch m := m.(type) {
	case *wire.QueueDeclare:
		return act(audit.OpQueueDeclare, "queue", m.Queue), !m.Passive
	case *wire.QueueDelete:
		return act(audit.OpQueueDelete, "queue", last(m.Queue)), true
	case *wire.QueuePurge:
		return act(audit.OpQueuePurge, "queue", last(m.Queue)), true
	case *wire.QueueBind:
		return act(audit.OpBindingCreate, "binding", names.Binding(m.Exchange, last(m.Queue))), true
	case *wire.QueueUnbind:
		return act(audit.OpBindingDelete, "binding", names.Binding(m.Exchange, last(m.Queue))), true
	case *wire.ExchangeDeclare:
		return act(audit.OpExchangeDeclare, "exchange", m.Exchange), !m.Passive
	case *wire.ExchangeDelete:
		return act(audit.OpExchangeDelete, "exchange", m.Exchange), true
	case *wire.ExchangeBind:
		return act(audit.OpBindingCreate, "binding", names.Binding(m.Source, m.Destination)), true
	case *wire.ExchangeUnbind:
		return act(audit.OpBindingDelete, "binding", names.Binding(m.Source, m.Destination)), true
	}
	return audit.Act{}, false
}
