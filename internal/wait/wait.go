// Package wait waits for a time that a context may cut short, bounds waits, and wakes waiting
// goroutines.
package wait

import (
	"context"
	"time"
)

// For waits for a time and returns nil. If ctx ends first, or has ended before, it returns the
// error of ctx, also for a time of zero. It may be called concurrently.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wake puts an element into a channel of capacity 1 unless it has one. One element wakes the
// receiver once for all calls so far. Wake does not block, and may be called concurrently.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Within returns a context that ends with ctx, with life, or after d if d is positive. Call the returned function
// when the context is no longer needed. Within may be called concurrently.
func Within(ctx, life context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	release := context.AfterFunc(life, cancel)
	return ctx, func() { release(); cancel() }
}
