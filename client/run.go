package client

import (
	"context"
	"errors"
)

// Run receives and handles messages until ctx ends, which is no error, or until the consumer ends. It returns when no
// handler is running any more. If handle returns nil, Run acks the message; if handle returns an error, Run returns the
// message to the queue as a failed delivery. If handle has decided about the message itself, Run leaves it alone.
//
// Run handles one message at a time, or as many as ConsumeConfig.Concurrency says. Each handler takes the next message
// when it has finished its last one. So messages are begun in the queue's order, and each handler finishes its own in
// that order, but there is no order between handlers. With more than one, handle must be safe to call concurrently.
func (s *Consumer) Run(ctx context.Context, handle func(context.Context, *Delivery) error) error {
	handlers := max(1, s.cfg.Concurrency)
	ended := make(chan error, handlers)
	for range handlers {
		go func() { ended <- s.handleAll(ctx, handle) }()
	}
	var first error // the others end for the same reason
	for range handlers {
		if err := <-ended; first == nil {
			first = err
		}
	}
	return first
}

// handleAll is the loop of one handler.
func (s *Consumer) handleAll(ctx context.Context, handle func(context.Context, *Delivery) error) error {
	for {
		d, err := s.Receive(ctx)
		if over(ctx) {
			return nil // what was received last returns to the queue with the consumer
		}
		if err != nil {
			return err
		}
		decision := Decision{Kind: Ack}
		if err := handle(ctx, d); err != nil {
			s.c.cfg.Logger.Warn("message handler failed, message is returned", "queue", s.cfg.Queue, "error", err)
			decision = Decision{Kind: Requeue, Failed: true}
		}
		if s.cfg.AutoAck {
			continue
		}
		if err := d.Decide(decision); err != nil && !errors.Is(err, ErrStale) {
			return err
		}
	}
}

// over reports whether the caller has ended what runs under ctx.
func over(ctx context.Context) bool { return ctx.Err() != nil }
