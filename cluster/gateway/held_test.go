package gateway

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/quorumq"
)

// A publish that finds the window of its queue full counts once, and as waiting until there is room or its caller goes.
func TestHeld(t *testing.T) {
	t.Parallel()
	q, l := ledQueue(t)
	for range q.g.cfg.PublishWindow {
		l.publish(q, func(error) {})
	}
	counts := func(wantSince uint64, wantNow int64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			since, now := q.g.Held()
			switch {
			case since == wantSince && now == wantNow:
				return
			case time.Now().After(deadline):
				t.Fatalf("%d since the start, %d now, want %d and %d", since, now, wantSince, wantNow)
			}
		}
	}
	counts(0, 0)
	enqueue := func(ctx context.Context) <-chan error {
		taken := make(chan error, 1)
		go func() {
			taken <- q.Enqueue(ctx, quorumq.NewMessage{Size: 4, TTLMs: quorumq.Unlimited}, []byte("body"), func(error) {})
		}()
		return taken
	}
	ctx, gone := context.WithCancel(t.Context())
	first := enqueue(ctx)
	counts(1, 1)
	gone()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone gets %v", err)
	}
	counts(1, 0)
	second := enqueue(t.Context())
	counts(2, 1)
	l.apply(<-l.submitted)
	if err := <-second; err != nil {
		t.Error(fmt.Errorf("when there is room again: %w", err))
	}
	counts(2, 0)
}
