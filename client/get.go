package client

import (
	"context"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Taken is a message taken by Get. Its Token settles it through any node.
type Taken struct {
	Received
	Token string // empty with auto-ack
	Ready uint64 // number of messages left
}

// GetRequest names a queue.
type GetRequest struct {
	VHost   string // "": "/"
	Queue   string
	AutoAck bool // settle at once: a client that fails loses what it has not read (DEL-4)
}

// Get takes one message, nil if none is ready. Without AutoAck the caller holds it until Settle, or
// until the hold expires and it returns to the queue (DEL-5, AM-8). If the answer of an attempt is
// lost, the message returns to the queue by itself; with AutoAck it is lost.
func (c *Client) Get(ctx context.Context, r GetRequest) (*Taken, error) {
	q := &brokerv1.GetRequest{Vhost: r.VHost, Queue: r.Queue, AutoAck: r.AutoAck}
	out, err := do(ctx, c, q, func(ctx context.Context, n *node, r *brokerv1.GetRequest) (*brokerv1.GetResponse, error) {
		return n.broker.Get(ctx, r)
	})
	if err != nil || out.GetDelivery() == nil {
		return nil, err
	}
	return &Taken{Received: receivedFromProto(out.GetDelivery()), Token: out.GetSettleToken(), Ready: out.GetReady()}, nil
}

// SettleRequest names a message taken by Get, and what to do with it.
type SettleRequest struct {
	Token    string // of Taken
	Decision Decision
}

// Settle settles a message taken by Get. If the error is a *Error of class PreconditionFailed about
// settle_token, the caller does not hold the message any more: the hold expired, or an earlier
// attempt whose answer was lost has settled it (DEL-6).
func (c *Client) Settle(ctx context.Context, r SettleRequest) error {
	d := r.Decision
	annotations, err := d.Annotations.proto()
	if err != nil {
		return err
	}
	q := &brokerv1.SettleRequest{
		SettleToken: r.Token, Outcome: d.Kind.proto(), Failed: d.Failed, Annotations: annotations,
		DeliverAtMs: atMs(d.DeliverAt), DelayMs: delayMs(d.DeliverAt, d.Delay),
	}
	_, err = do(ctx, c, q, func(ctx context.Context, n *node, r *brokerv1.SettleRequest) (*brokerv1.SettleResponse, error) {
		return n.broker.Settle(ctx, r)
	})
	return err
}

// SettleAndPublishRequest names a message taken by Get, and what to publish in its place.
type SettleAndPublishRequest struct {
	Token   string // of Taken
	Outputs []Message
}

// SettleAndPublish acknowledges a message taken by Get and publishes outputs in its place, in the
// vhost of its queue: both, or neither (G-22). The outputs then reach each queue that they are
// routed to exactly once, even if nodes fail. It does not retry, except when a node asks to wait,
// like PublishOne. A *Error of class PreconditionFailed that blames none of the outputs reports
// that the caller no longer holds the message, because an earlier attempt settled it or it is back
// in its queue. After a *Error of class Unavailable the outcome may be unknown. In both cases the
// message is delivered again if and only if nothing was published.
func (c *Client) SettleAndPublish(ctx context.Context, r SettleAndPublishRequest) error {
	q, err := c.transaction(r.Token, r.Outputs)
	if err != nil {
		return err
	}
	return c.once(ctx, func(ctx context.Context, n *node) error {
		_, err := n.joint.SettleAndPublish(ctx, q)
		return err
	})
}

// PublishOne publishes one message by itself and waits for its result. After an error of class
// UNAVAILABLE the message may or may not be stored; PublishOne does not retry. If a node refuses
// the message for lack of room (RESOURCE_EXHAUSTED), PublishOne sends it again after the time that
// the node asks for, until ctx ends or, if ctx has no deadline, for Config.CallTimeout. Use a
// Publisher for more than a few messages.
func (c *Client) PublishOne(ctx context.Context, m Message) (Result, error) {
	if err := c.checkSize(&m); err != nil {
		return Result{}, err
	}
	p, err := m.proto()
	if err != nil {
		return Result{}, err
	}
	var out *brokerv1.PublishOneResponse
	err = c.once(ctx, func(ctx context.Context, n *node) (err error) {
		out, err = n.broker.PublishOne(ctx, &brokerv1.PublishOneRequest{Message: p})
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return resultFromProto(out.GetResult())
}
