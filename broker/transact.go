package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/quorumq"
)

// MaxOutputs limits how many messages one decision publishes.
const MaxOutputs = 1000

// SettleAndPublish acknowledges messages and publishes others in their place, in the vhost of the
// queue: all of this, or nothing (G-22). The token of a Get stands for its message. With the token
// of a Consumer, ids names the deliveries. The outputs are checked like publishes. The queue stores
// them, and then they reach each of their targets once. An output that is routed nowhere waits
// until it is routed somewhere; if it is mandatory, the call fails instead. If the caller no longer
// holds the messages, the refusal names the argument settle_token.
func (b *Broker) SettleAndPublish(ctx context.Context, token string, ids []uint64, sender *Sender, outputs []Publish) (err error) {
	by, about, err := b.settleTokens.Open(ctx, token)
	if err != nil {
		return err
	}
	t := by.ConsumerToken
	held, err := heldBy(&t, ids, about)
	if err != nil {
		return err
	}
	if len(outputs) > MaxOutputs {
		about.Class, about.Arg, about.Value = failure.PreconditionFailed, "outputs", strconv.Itoa(len(outputs))
		about.Reason = "one decision publishes at most " + strconv.Itoa(MaxOutputs) + " messages"
		return &about
	}
	for i := range outputs {
		outputs[i].VHost, outputs[i].Sender = about.VHost, sender
	}
	traced := b.traceOutputs(outputs)
	defer func() { traced(err) }()
	r := routed{b: b}
	made, bodies := make([]quorumq.Output, len(outputs)), make([][]byte, len(outputs))
	for i := range outputs {
		o := &outputs[i]
		if err := r.prepareOutput(ctx, o); err != nil {
			b.clients.Counters.Invalid.Add(1)
			return err
		}
		made[i] = quorumq.Output{Exchange: o.Exchange, Size: uint32(len(o.Body))} // D-5
		bodies[i] = storedForm(&o.Message)
		r.restore(o)
	}
	if err := b.cluster.Gateway().Transact(ctx, t, held, made, bodies); err != nil {
		return failure.Translate(err, by.About(err, about))
	}
	if v := b.view(); sender != nil {
		for i := range outputs {
			sender.charge(v, about.VHost, len(outputs[i].Body))
		}
	}
	b.clients.Counters.Published.Add(uint64(len(outputs)))
	b.clients.Counters.Confirmed.Add(uint64(len(outputs)))
	return nil
}

// heldBy returns the ids as ranges, in their order. The token of a Get needs none.
func heldBy(t *gateway.ConsumerToken, ids []uint64, about failure.Error) ([]quorumq.MsgIDRange, error) {
	about.Class, about.Arg = failure.PreconditionFailed, "delivery_ids"
	switch {
	case !t.OfStream() && len(ids) > 0:
		about.Reason = "are of a Consume stream, the settle token is of one Get; leave them out"
		return nil, &about
	case !t.OfStream():
		return nil, nil
	case len(ids) == 0:
		about.Reason = "are missing: name the deliveries of the stream that are settled"
		return nil, &about
	case len(ids) > MaxSettlementIDs:
		about.Value = strconv.Itoa(len(ids))
		about.Reason = "one decision settles at most " + strconv.Itoa(MaxSettlementIDs) + " messages"
		return nil, &about
	}
	var held []quorumq.MsgIDRange
	for _, n := range ids {
		if n == 0 || n > maxDeliveryID {
			about.Value, about.Reason = strconv.FormatUint(n, 10), "is no delivery of the stream"
			return nil, &about
		}
		held = appendRun(held, quorumq.MsgID(n))
	}
	return held, nil
}

// prepareOutput is prepare for a message that a queue's forwarder publishes later.
func (r *routed) prepareOutput(ctx context.Context, m *Publish) error {
	err := r.prepare(ctx, m)
	if m.Mandatory && len(r.uids) == 0 && err == nil {
		err = r.confirm(ctx, m, nil)
	}
	if err != nil {
		return err
	}
	about := aboutMessage(m)
	about.Class = failure.PreconditionFailed
	switch {
	case r.later != (quorumq.Delay{}):
		about.Arg, about.Reason = "deliver_at", "an output of a decision cannot be delayed; let a consumer or a queue with a TTL do it"
		return &about
	case m.Mandatory && len(r.uids) == 0:
		about.State, about.Arg, about.Value = true, "mandatory", strconv.Quote(m.RoutingKey)
		about.Reason = "exchange " + strconv.Quote(m.Exchange) + " routes it to no queue; bind one"
		return &about
	}
	return nil
}
