package client

import (
	"context"
	"errors"
)

// Run receives and handles messages until ctx ends, which is no error, or the consumer does, and returns when no handler runs
// any more. A nil error of handle acks the message, any other returns it as a failed delivery; a message that handle decided
// about itself is left alone.
//
// It handles one message at a time, or as many as ConsumeConfig.Concurrency says. Each of so many handlers takes the next
// message when it is done with its last one: messages begin in the queue's order, those of one handler end in it, and there is
// no order between handlers. handle must then be safe to call concurrently.
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

// handleAll is one handler.
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
