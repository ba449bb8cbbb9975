// Package wait waits for a time that may be cut short.
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

// Within returns a context that ends with ctx, with life, or after a time; d that is not positive: without it. Who calls has
// to call what comes with it. It may be called concurrently.
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
