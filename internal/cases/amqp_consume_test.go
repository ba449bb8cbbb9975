package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
)

// Get takes a message on a channel of its own, which stays open until it is settled.
func (p protocol) Get(ctx context.Context, vhost, queue string, autoAck bool) (*client.Taken, error) {
	if p.amqp == nil {
		return p.Client.Get(ctx, client.GetRequest{VHost: vhost, Queue: queue, AutoAck: autoAck})
	}
	ch, err := p.amqp.channel(vhost)
	if err != nil {
		return nil, err
	}
	d, ok, err := ch.Get(queue, autoAck)
	if err != nil {
		return nil, errorOf(err)
	}
	if !ok {
		return nil, ch.Close()
	}
	out := &client.Taken{Received: receivedOf(&d), Ready: uint64(d.MessageCount)}
	if autoAck {
		return out, ch.Close()
	}
	out.Token = fmt.Sprint("amqp ", p.amqp.calls)
	p.amqp.taken[out.Token] = taken{ch: ch, tag: d.DeliveryTag}
	return out, nil
}

// Settle decides about what Get took. A token that AMQP did not give is gRPC's.
func (p protocol) Settle(ctx context.Context, token string, d client.Decision) error {
	if p.amqp == nil {
		return p.Client.Settle(ctx, client.SettleRequest{Token: token, Decision: d})
	}
	t, known := p.amqp.taken[token]
	if !known {
		return p.Client.Settle(ctx, client.SettleRequest{Token: token, Decision: d})
	}
	p.amqp.calls++
	delete(p.amqp.taken, token)
	err := p.amqp.decide(t.ch, t.tag, d)
	return errorOf(errors.Join(err, t.ch.Close())) // when the channel is closed the decision is made
}

// decide sends the method that says the same as a decision (DEL-8).
func (a *overAMQP) decide(ch *amqp.Channel, tag uint64, d client.Decision) error {
	if len(d.Annotations) > 0 || d.Delay != 0 || !d.DeliverAt.IsZero() {
		a.t.Skip("AMQP's methods carry neither annotations nor a time with a decision")
	}
	switch {
	case d.Kind == client.Ack:
		return ch.Ack(tag, false)
	case d.Failed:
		return ch.Reject(tag, d.Kind == client.Requeue)
	default:
		return ch.Nack(tag, false, d.Kind == client.Requeue)
	}
}

// consumer is one over either protocol.
type consumer struct {
	*client.Consumer // over gRPC
	amqp             *overAMQP
	ch               *amqp.Channel
	queue, tag       string
	deliveries       <-chan amqp.Delivery
	cancelled        chan string
}

// delivery is what a consumer got.
type delivery struct {
	client.Received
	decide func(client.Decision) error
	native *client.Delivery // over gRPC
	skip   func(...any)     // over AMQP
}

func (d *delivery) ExtendAckDeadline(by time.Duration) error {
	d.needGRPC()
	return d.native.ExtendAckDeadline(by)
}

func (d *delivery) Revoked() bool {
	d.needGRPC()
	return d.native.Revoked()
}

func (d *delivery) needGRPC() {
	if d.native == nil {
		d.skip("over AMQP no method extends an ack deadline, and its end ends the consumer (CT-4)")
	}
}

func (d *delivery) Ack() error { return d.decide(client.Decision{Kind: client.Ack}) }

func (d *delivery) Requeue(failed bool) error {
	return d.decide(client.Decision{Kind: client.Requeue, Failed: failed})
}

func (d *delivery) Discard() error {
	return d.decide(client.Decision{Kind: client.Discard, Failed: true})
}

func (d *delivery) RequeueAfter(failed bool, delay time.Duration) error {
	return d.decide(client.Decision{Kind: client.Requeue, Failed: failed, Delay: delay})
}

func (p protocol) Consume(ctx context.Context, cfg client.ConsumeConfig) (*consumer, error) {
	if p.amqp == nil {
		s, err := p.Client.Consume(ctx, cfg)
		return &consumer{Consumer: s}, err
	}
	ch, err := p.amqp.channel(cfg.VHost)
	if err != nil {
		return nil, err
	}
	s := &consumer{amqp: p.amqp, ch: ch, queue: cfg.Queue, tag: fmt.Sprint("tag ", p.amqp.calls)}
	s.cancelled = ch.NotifyCancel(make(chan string, 1))
	if err := ch.Qos(int(cfg.Prefetch), 0, false); err != nil {
		return nil, errorOf(err)
	}
	more := amqp.Table{}
	if cfg.Priority != 0 {
		more["x-priority"] = cfg.Priority
	}
	if cfg.Timeout != 0 {
		more["x-consumer-timeout"] = max(0, cfg.Timeout.Milliseconds())
	}
	s.deliveries, err = ch.Consume(cfg.Queue, s.tag, cfg.AutoAck, cfg.Exclusive, false, false, more)
	return s, errorOf(err)
}

func (s *consumer) Receive(ctx context.Context) (*delivery, error) {
	if s.amqp == nil {
		d, err := s.Consumer.Receive(ctx)
		if err != nil {
			return nil, err
		}
		return &delivery{Received: d.Received, decide: d.Decide, native: d}, nil
	}
	select {
	case d, open := <-s.deliveries:
		if !open {
			return nil, client.ErrCancelled
		}
		return &delivery{Received: receivedOf(&d), decide: func(decision client.Decision) error {
			return errorOf(s.amqp.decide(s.ch, d.DeliveryTag, decision))
		}, skip: s.amqp.t.Skip}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Flush waits for decisions: a method that looks at the queue comes behind them.
func (s *consumer) Flush(ctx context.Context) error {
	if s.amqp == nil {
		return s.Consumer.Flush(ctx)
	}
	_, err := s.ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
	return errorOf(err)
}

func (s *consumer) Cancel(ctx context.Context, requeue bool) error {
	if s.amqp == nil {
		return s.Consumer.Cancel(ctx, requeue)
	}
	if requeue {
		s.amqp.t.Skip("basic.cancel leaves what is unsettled with the client")
	}
	return errorOf(s.ch.Cancel(s.tag, false))
}

func (s *consumer) Close() {
	if s.amqp == nil {
		s.Consumer.Close()
		return
	}
	_ = s.ch.Close() // it may be closed
}
