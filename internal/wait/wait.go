// Package wait waits for a time that may be cut short, bounds waiting, and wakes who waits.
package wait

import (
	"context"
	"time"
)

// For waits for a time, and returns nil; or the error of ctx as soon as that ends, also if there is nothing to wait for. It may be
// called concurrently.
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

// Wake puts an element into a channel of capacity 1, unless it has one: whoever waits on the channel looks
// once for all who called meanwhile. It does not block, and may be called concurrently.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Within returns a context that ends with ctx, with life, or after d if that is positive. What comes with it is to be
// called when the context is not needed any more. It may be called concurrently.
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
