package client

import (
	"context"
	"errors"
	"fmt"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// transaction returns the request to settle what a token names, and to publish outputs.
func (c *Client) transaction(token string, outputs []Message) (*brokerv1.SettleAndPublishRequest, error) {
	r := &brokerv1.SettleAndPublishRequest{SettleToken: token}
	for i := range outputs {
		if err := c.checkSize(&outputs[i]); err != nil {
			return nil, err
		}
		p, err := outputs[i].proto()
		if err != nil {
			return nil, err
		}
		r.Outputs = append(r.Outputs, p)
	}
	return r, nil
}

// SettleAndPublish acknowledges the message and publishes outputs in its place, in the vhost of its
// queue: both, or neither (G-22). The outputs then reach each queue that they are routed to exactly
// once, even if nodes fail. Unlike Ack it waits until this is decided: while the answer is missing
// it asks other nodes, until ctx ends.
//
// The error wraps ErrStale if the consumer no longer holds the message: an earlier try whose answer
// was lost has settled it, or it is back in its queue and will be delivered again. Then nothing is
// left to do. After any other error the message still has to be decided about; if ctx has ended
// meanwhile, call again to find out.
func (d *Delivery) SettleAndPublish(ctx context.Context, outputs ...Message) error {
	return d.consumer.SettleAndPublish(ctx, Transaction{Deliveries: []*Delivery{d}, Outputs: outputs})
}

// Transaction is what a consumer settles and publishes together.
type Transaction struct {
	Deliveries []*Delivery // of this consumer, at most 10,000
	Outputs    []Message
}

// SettleAndPublish is Delivery.SettleAndPublish for several messages: all are settled and all outputs published, or nothing is. If it fails with ErrStale
// because the consumer no longer holds some of them, the others return to their queue and are
// delivered again.
func (s *Consumer) SettleAndPublish(ctx context.Context, x Transaction) error {
	r, err := s.transaction(x)
	if err != nil {
		return err
	}
	err = s.c.call(ctx, func(ctx context.Context, n *node) error {
		_, err := n.joint.SettleAndPublish(ctx, r)
		return err
	})
	// The queue has decided. The stream's node must also know, so that it forgets the deliveries. A
	// message that is not held cannot be returned, so this is safe even if an earlier try has
	// settled it.
	decision := Decision{Kind: Ack}
	var e *Error
	if errors.As(err, &e) && e.Class == PreconditionFailed && e.Arg == "settle_token" {
		decision.Kind, err = Requeue, fmt.Errorf("%w: %w", ErrStale, err)
	} else if err != nil {
		return err
	}
	for _, d := range x.Deliveries {
		if own := s.decide(d, decision); own != nil && !errors.Is(own, ErrStale) { // stale: its stream is lost
			return own
		}
	}
	return err
}

// transaction returns the request for unacked deliveries of the current stream.
func (s *Consumer) transaction(x Transaction) (*brokerv1.SettleAndPublishRequest, error) {
	s.mu.Lock()
	token := s.token
	ids, named := make([]uint64, 0, len(x.Deliveries)), make(map[uint64]bool, len(x.Deliveries))
	for _, d := range x.Deliveries {
		if d.consumer != s || d.stream != s.stream || !s.unsettled[d.id] || named[d.id] {
			s.mu.Unlock()
			return nil, ErrStale
		}
		ids, named[d.id] = append(ids, d.id), true
	}
	s.mu.Unlock()
	r, err := s.c.transaction(token, x.Outputs)
	if err == nil {
		r.DeliveryIds = ids
	}
	return r, err
}
