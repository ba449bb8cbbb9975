package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// ArgConsumerTimeout is the argument of a consumer that has its own timeout, in milliseconds (CT-1).
const ArgConsumerTimeout = "x-consumer-timeout"

// ConsumerTimeout returns for how many milliseconds a delivery to a consumer of a queue may stay unacked: for its own
// timeout if its arguments have one, else for the queue's (CT-1). 0 is without end, and for a queue that is not there. It
// checks no permission.
func (b *Broker) ConsumerTimeout(vhost, queue string, arguments message.Table) int64 {
	if v, there := arguments.Get(ArgConsumerTimeout); there {
		if ms, is := v.AsInt(); is {
			return ms
		}
	}
	v := b.view()
	rec, err := serving.LookUp(v, vhost, queue)
	if err != nil {
		return 0
	}
	return b.policies.QueueConfig(v, rec).ConsumerTimeoutMs
}

// Consume registers a consumer. It returns when the queue's leader has the consumer.
func (b *Broker) Consume(ctx context.Context, o Consume) (*Consumer, error) {
	q, about, err := b.Queues.ToRead(ctx, o.VHost, o.Queue)
	if err != nil {
		return nil, err
	}
	if _, err := b.unknown.of(ctx, b.view(), about, o.Arguments, policy.UnknownOfConsumer(o.Arguments), true); err != nil {
		return nil, err
	}
	return b.consume(ctx, q, about, o)
}

// consume is Consume for a queue that is found and permitted.
func (b *Broker) consume(ctx context.Context, q *gateway.Queue, about failure.Error, o Consume) (*Consumer, error) {
	if o.TimeoutMs < 0 {
		about.Class, about.Arg, about.Value = failure.PreconditionFailed, "consumer_timeout_ms", strconv.FormatInt(o.TimeoutMs, 10)
		about.Reason = "is negative; want 0 for no timeout, or more"
		return nil, &about
	}
	c := &Consumer{b: b, about: about, autoAck: o.AutoAck, ready: make(chan struct{}, 1), woken: o.Wake, origin: originOf(ctx, b.Logins, about, &o)}
	if rec, ok := b.view().QueueByUID(q.UID()); ok {
		c.autoDelete, c.classic = rec.AutoDelete, rec.Type == catalog.QueueClassic
	}
	if c.buffer = o.Buffer; c.buffer == nil {
		c.buffer = b.Buffers.New()
	}
	c.credit = newCreditTracker(&o, b.cfg.DeliveryBufferBytes)
	c.shown = &clients.Consumer{VHost: about.VHost, Queue: about.Name, Look: c.look}
	uncount, err := b.Connections.OpenConsumer(ctx, about.VHost, q.UID())
	if err != nil {
		c.letGo()
		return nil, err
	}
	c.counts(uncount)
	cc, err := q.Consume(ctx, c.settings(&o))
	if err != nil {
		c.letGo()
		return nil, failure.Translate(err, about)
	}
	c.mu.Lock()
	c.c = cc
	c.mu.Unlock()
	b.clients.ShowConsumer(c.shown)
	return c, nil
}

// settings returns what the queue needs to know about a consumer, and starts the consumer's credit. The caller holds mu,
// unless the consumer is new.
func (c *Consumer) settings(o *Consume) gateway.ConsumerConfig {
	c.credit.sent = c.credit.limit(c.usedLocked())
	return gateway.ConsumerConfig{
		Prefetch:   o.Prefetch,
		Credit:     o.ExplicitCredit || c.credit.bounded,
		Limit:      quorumq.MsgID(c.credit.sent),
		AutoAck:    o.AutoAck,
		Priority:   o.Priority,
		Exclusive:  o.Exclusive,
		Deliver:    c.deliver,
		Skipped:    c.skip,
		Buffer:     c.buffer.b,
		HasTimeout: o.HasTimeout, TimeoutMs: o.TimeoutMs,
		Active:  c.setActive,
		Revoked: c.revoke,
		Ended:   c.end,
	}
}

// Again makes a cancelled consumer go on. What its client has not settled still counts towards the
// prefetch (CO-3). Again returns false and changes nothing if that is impossible, because the
// consumer has ended or the name now belongs to another queue. The consumer keeps its first
// Consume.Buffer and Consume.Wake.
func (c *Consumer) Again(ctx context.Context, o Consume) (bool, error) {
	q, about, err := c.b.Queues.ToRead(ctx, o.VHost, o.Queue)
	if err != nil {
		return false, err
	}
	if q.UID() != c.c.Queue() || o.TimeoutMs < 0 {
		return false, nil
	}
	uncount, err := c.b.Connections.OpenConsumer(ctx, about.VHost, q.UID())
	if err != nil {
		return false, err
	}
	settings, goesOn := c.begin(&o, originOf(ctx, c.b.Logins, about, &o))
	if !goesOn {
		uncount()
		return false, nil
	}
	if err := c.c.Again(ctx, settings); err != nil {
		uncount()
		return false, failure.Translate(err, about)
	}
	c.counts(uncount)
	c.b.clients.ShowConsumer(c.shown)
	return true, nil
}

// begin takes over the settings of a consumer that is to go on; it returns false if the consumer
// has ended.
func (c *Consumer) begin(o *Consume, from origin) (gateway.ConsumerConfig, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.ended != nil {
		return gateway.ConsumerConfig{}, false
	}
	average := c.credit.average
	c.credit = newCreditTracker(o, c.b.cfg.DeliveryBufferBytes)
	c.credit.average = average
	c.origin = from
	return c.settings(o), true
}
