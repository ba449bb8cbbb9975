package metadata

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/internal/wait"
)

// A view of the catalog shows what exists, but never proves that something does not exist: the entry that creates a
// queue may not have arrived yet. So a node serves clients only when its view, once in this life, has included all
// that was committed when it asked. It answers that something does not exist, or that a message has no queue, only if
// the view was confirmed a short time ago (EX-16).
const (
	// proofAttempt bounds the first attempt. After a failure the next one may take longer, up to proofPatience,
	// because overloaded nodes answer late.
	proofAttempt  = time.Second
	proofPatience = 8 * time.Second
	// proofRetry is the wait after an attempt that failed; it doubles with every eighth, up to
	// eightfold.
	proofRetry = 50 * time.Millisecond
	// proofWait bounds how long a call waits for the attempt that it asked for.
	proofWait = time.Second
)

// assurance is what this node knows of how current its view of the catalog is.
type assurance struct {
	most  time.Duration // age up to which a view is fresh
	clock nodeclock.Source

	// proven is when the newest attempt began that succeeded; nil: none has in this life, or since
	// the catalog group failed here.
	proven atomic.Pointer[clock.Reading]
	serves atomic.Bool // the view was confirmed, and the node may take part

	ask chan struct{} // of capacity 1: somebody waits for an attempt

	mu      sync.Mutex
	failing error         // why the newest attempt failed; nil: it did not
	ended   chan struct{} // closed at the end of an attempt
	changed chan struct{} // closed when serves changes
}

// newAssurance returns one that is not confirmed. A confirmation counts for most, by the clock.
func newAssurance(most time.Duration, clock nodeclock.Source) *assurance {
	return &assurance{
		most: most, clock: clock,
		ask: make(chan struct{}, 1), ended: make(chan struct{}), changed: make(chan struct{}),
	}
}

// age returns how old the view may be; false: nobody knows. The monotonic clock of a machine
// that was suspended does not show it, but its wall clock may.
func (a *assurance) age() (time.Duration, bool) {
	proven := a.proven.Load()
	if proven == nil {
		return 0, false
	}
	now := a.clock.Read()
	return max(now.Elapsed-proven.Elapsed, now.Wall-proven.Wall), true
}

func (a *assurance) fresh() bool {
	age, known := a.age()
	return known && age <= a.most
}

// attemptEnded records the outcome of an attempt and when it began. usable reports whether the node may take part; it
// is called under the lock.
func (a *assurance) attemptEnded(began clock.Reading, err error, usable func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = err
	close(a.ended)
	a.ended = make(chan struct{})
	if err != nil || !usable() {
		return
	}
	a.proven.Store(&began)
	a.setServes(true)
}

// revoke ends what was confirmed: this node may not take part, or its catalog group has failed.
func (a *assurance) revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proven.Store(nil)
	a.setServes(false)
}

// setServes wakes all that wait for a change, if the answer has changed; a.mu is held.
func (a *assurance) setServes(serves bool) {
	if a.serves.Swap(serves) == serves {
		return
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// news returns a channel that is closed when the answer to usable changes; call it again for the next change.
func (a *assurance) news() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// confirm returns when an attempt that began after the call has proven the view, or with the end of
// ctx and the reason why none has.
func (a *assurance) confirm(ctx context.Context) error {
	asked := a.clock.Read()
	for {
		a.mu.Lock()
		failing, ended := a.failing, a.ended
		a.mu.Unlock()
		if proven := a.proven.Load(); proven != nil && proven.Elapsed > asked.Elapsed {
			return nil
		}
		wait.Wake(a.ask)
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("cluster: the catalog's leader has not confirmed the view: %w", cmp.Or(failing, ctx.Err()))
		}
	}
}

// await returns when the view is fresh, or why it is not. While attempts fail it does not wait:
// whoever publishes would stand still. Otherwise, as after a pause of the process, it waits for
// an attempt that began after the call.
func (a *assurance) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	for first := true; ; first = false {
		a.mu.Lock()
		failing, ended := a.failing, a.ended
		a.mu.Unlock()
		switch {
		case a.fresh():
			return nil
		case failing != nil:
			return failing
		}
		if first {
			wait.Wake(a.ask)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("cluster: the catalog's leader has not answered: %w", ctx.Err())
		}
	}
}
