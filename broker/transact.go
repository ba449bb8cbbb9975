package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// MaxOutputs bounds the messages that one decision publishes.
const MaxOutputs = 1000

// SettleAndPublish acknowledges a message that Get took, and publishes others in its place,
// in the vhost of its queue: both, or neither (G-22). The outputs are checked as publishes
// are. They are then with the queue, and reach each of their targets once; one that is routed
// nowhere waits until it is, unless it is mandatory.
func (b *Broker) SettleAndPublish(ctx context.Context, token string, sender *Sender, outputs []Publish) error {
	c, t, about, err := b.tokenToSettle(ctx, token)
	if err != nil {
		return err
	}
	if len(outputs) > MaxOutputs {
		about.Class, about.Arg, about.Value = PreconditionFailed, "outputs", strconv.Itoa(len(outputs))
		about.Reason = "one decision publishes at most " + strconv.Itoa(MaxOutputs) + " messages"
		return &about
	}
	p := newPublishing(b)
	made, bodies := make([]quorumq.Output, len(outputs)), make([][]byte, len(outputs))
	for i := range outputs {
		o := &outputs[i]
		o.VHost, o.Sender = about.VHost, sender
		p.msg = message.Message{}
		if err := p.prepareOutput(o); err != nil {
			b.counters.invalid.Add(1)
			return err
		}
		made[i] = quorumq.Output{Exchange: o.Exchange, Size: uint32(len(o.Body))} // D-5
		bodies[i] = message.Append(make([]byte, 0, storedSizeHint(&p.msg)), &p.msg)
	}
	if err := c.Transact(ctx, t, made, bodies); err != nil {
		return translate(err, about)
	}
	b.counters.published.Add(uint64(len(outputs)))
	b.counters.confirmed.Add(uint64(len(outputs)))
	return nil
}

// prepareOutput is prepare for a message that a queue's forwarder publishes.
func (p *publishing) prepareOutput(m *Publish) error {
	if _, err := p.prepare(m); err != nil {
		return err
	}
	about := aboutMessage(m)
	about.Class = PreconditionFailed
	switch {
	case p.later != (quorumq.Delay{}):
		about.Arg, about.Reason = "deliver_at", "an output of a decision cannot be delayed; let a consumer or a queue with a TTL do it"
		return &about
	case m.Mandatory && len(p.uids) == 0:
		about.State, about.Arg, about.Value = true, "mandatory", quoted(m.RoutingKey)
		about.Reason = "exchange " + quoted(m.Exchange) + " routes it to no queue; bind one"
		return &about
	}
	return nil
}
