// Package quota computes the rates that bound publishers: how long a publisher above its rate
// waits, and what share of the rate each node gets. It only computes; the time is always a
// parameter.
package quota

import (
	"math"
	"time"
)

const (
	// burst is how long unused units of a rate accumulate.
	burst = 100 * time.Millisecond
	// quantum is how long units accumulate before waiting publishers continue, so that there is one
	// wait for many messages.
	quantum = 10 * time.Millisecond
	// Forever is the wait at a rate of 0.
	Forever = time.Hour
)

// Bucket is a token bucket. Callers that ask first and take later may take more than there is.
// Later callers wait until the debt is paid off, so that over a longer time the rate holds. The
// zero value lets nothing pass. It is not for concurrent use.
//
// Times are durations since a fixed moment and never decrease.
type Bucket struct {
	rate  float64 // units per second
	units float64 // negative: debt
	at    time.Duration
	held  bool // waiting until a quantum has accumulated
}

// SetRate sets the units per second, 0 or more, from now on. Accumulated units and debt stay. The
// first rate begins with a burst.
func (b *Bucket) SetRate(now time.Duration, rate float64) {
	if rate == b.rate {
		return
	}
	if b.fill(now); b.rate == 0 && b.units == 0 {
		b.units = most(rate)
	}
	b.rate = rate
	b.units = min(b.units, most(rate))
}

// Rate returns the units per second.
func (b *Bucket) Rate() float64 { return b.rate }

// most is how many units accumulate at a rate: at least one, or a low rate would never let a unit
// pass.
func most(rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	return max(1, rate*burst.Seconds())
}

// fill adds what the rate gives since the last call, up to the bucket's size. A clock that steps
// back adds nothing.
func (b *Bucket) fill(now time.Duration) {
	if d := now - b.at; d > 0 {
		b.units = min(most(b.rate), b.units+b.rate*d.Seconds())
		b.at = now
	}
}

// Take removes units, even more than there are.
func (b *Bucket) Take(now time.Duration, n float64) {
	b.fill(now)
	b.units -= n
}

// Wait returns how long to wait before the next Take; 0: no wait.
func (b *Bucket) Wait(now time.Duration) time.Duration {
	b.fill(now)
	if b.rate <= 0 {
		return Forever
	}
	enough := min(most(b.rate), max(1, b.rate*quantum.Seconds()))
	if b.held && b.units > enough-tiny || !b.held && b.units > 0 {
		b.held = false
		return 0
	}
	b.held = true
	seconds := (enough - b.units) / b.rate
	if seconds >= Forever.Seconds() {
		return Forever
	}
	return max(time.Microsecond, time.Duration(math.Ceil(seconds*float64(time.Second))))
}

// tiny absorbs rounding errors of float sums.
const tiny = 1e-6
