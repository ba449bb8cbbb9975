package inventory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// Waits of the breaker.
const (
	// FirstWait follows the first call that a cluster did not answer; each further one doubles the wait, up
	// to LongestWait.
	FirstWait   = time.Second
	LongestWait = 2 * time.Minute
)

// UnavailableError reports that a cluster did not answer, and when it is asked again.
type UnavailableError struct {
	// Cause is the failure of the last call.
	Cause error
	// Wait is how long the cluster is left alone from now on.
	Wait time.Duration
}

// Error names the cause and the wait.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the cluster did not answer; it is asked again in %v: %v", e.Wait.Round(time.Second), e.Cause)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// Breaker keeps the operator from asking a cluster that does not answer: its callers share a few workers, which
// would all wait for that one cluster while others go without. After a wait one caller tries, and the others
// follow if that went well. All methods may be called concurrently.
type Breaker struct {
	mu       sync.Mutex // guards what follows
	failures int
	until    time.Time // no call before
	trying   bool      // the one call after the wait is under way
	cause    error
}

// NewBreaker returns a Breaker that lets calls pass.
func NewBreaker() *Breaker { return &Breaker{} }

// Ready returns an *UnavailableError while the cluster is to be left alone.
func (b *Breaker) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures == 0 {
		return nil
	}
	return b.waitLocked(time.Now())
}

// waitLocked is Ready while mu is held.
func (b *Breaker) waitLocked(now time.Time) error {
	if left := b.until.Sub(now); left > 0 {
		return &UnavailableError{b.cause, left}
	}
	if b.trying {
		return &UnavailableError{b.cause, FirstWait}
	}
	return nil
}

// Do makes a call unless the cluster is to be left alone, and returns its error: an *UnavailableError if the
// cluster did not answer.
func (b *Breaker) Do(call func() error) error {
	b.mu.Lock()
	if b.failures > 0 {
		if err := b.waitLocked(time.Now()); err != nil {
			b.mu.Unlock()
			return err
		}
		b.trying = true
	}
	b.mu.Unlock()
	err := call()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	if !silent(err) {
		b.failures = 0
		return err
	}
	// Calls that were under way at the same time fail together and count once.
	if now := time.Now(); now.After(b.until) {
		wait := min(FirstWait<<min(b.failures, 16), LongestWait)
		b.failures++
		b.until = now.Add(wait + rand.N(wait/4)) //nolint:gosec // spreads retries, keeps no secret
	}
	b.cause = err
	return &UnavailableError{err, time.Until(b.until)}
}

// silent reports whether an error means that the cluster gave no answer of its own.
func silent(err error) bool {
	if err == nil {
		return false
	}
	var e *client.Error
	if !errors.As(err, &e) {
		return true // could not be dialled, or ran out of time
	}
	return e.Class == client.Unavailable || e.Class == "" || errors.Is(err, context.DeadlineExceeded)
}

// Reset lets calls pass again, because something says that the cluster answers.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.until = 0, time.Time{}
}
