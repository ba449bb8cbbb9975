package client

import (
	"context"
	"errors"
	"testing"
)

// A consumer handles as many messages at a time as its configuration allows, and Run returns when its handlers have
// returned.
func TestRunConcurrently(t *testing.T) {
	t.Parallel()
	node := &faultyNode{storage: &storage{seen: map[string]uint64{}}}
	c := dial(t, serve(t, node))
	s, err := c.Consume(t.Context(), ConsumeConfig{Queue: "q", Concurrency: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	begun := make(chan struct{}, 3)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(ctx context.Context, _ *Delivery) error {
			begun <- struct{}{}
			<-ctx.Done() // so that none returns before all have begun
			return errors.New("stopped")
		})
	}()
	for range 3 {
		<-begun
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// When the consumer ends, each handler ends after its current message, and Run reports why.
func TestRunEndsWithConsumer(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}}))
	s, err := c.Consume(t.Context(), ConsumeConfig{Queue: "q", Concurrency: 4})
	if err != nil {
		t.Fatal(err)
	}
	begun, done := make(chan struct{}, 3), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(t.Context(), func(context.Context, *Delivery) error {
			begun <- struct{}{}
			<-done
			return nil
		})
	}()
	for range 3 {
		<-begun
	}
	s.Close()
	close(done)
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("Run ended with %v", err)
	}
}

func TestConsumeConfigValidate(t *testing.T) {
	if err := (ConsumeConfig{Queue: "q", Concurrency: -1}).Validate(); err == nil {
		t.Error("a negative concurrency is taken")
	}
}
