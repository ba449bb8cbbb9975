package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the wait between two tries: the first is quick, because most often another
// node serves at once.
const (
	firstRetry = 20 * time.Millisecond
	baseRetry  = 50 * time.Millisecond
	maxRetry   = 2 * time.Second
)

// backoff spaces tries with full jitter. One goroutine uses it.
type backoff struct{ tries int }

// next returns the wait before the next try: a random part of a bound that doubles up to maxRetry.
func (b *backoff) next() time.Duration {
	bound := firstRetry
	if b.tries > 0 {
		bound = min(maxRetry, baseRetry<<min(b.tries, 10))
	}
	b.tries++
	return rand.N(bound) //nolint:gosec // spreads tries
}

// wait waits for the next try, for at least the time least. It returns false if ctx ends first.
func (b *backoff) wait(ctx context.Context, least time.Duration) bool {
	t := time.NewTimer(least + b.next())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
