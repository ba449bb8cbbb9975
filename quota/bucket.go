// Package quota does the sums of rates that bound publishers: how long somebody waits who is above
// one, and which part of it each node gets. It only computes; the time is always a parameter.
package quota

import (
	"math"
	"time"
)

const (
	// burst is for how long the units of a rate gather while nobody takes them.
	burst = 100 * time.Millisecond
	// quantum is for how long they gather before those go on who were held back: so there is one
	// wait for many messages.
	quantum = 10 * time.Millisecond
	// Forever is the wait at a rate of 0.
	Forever = time.Hour
)

// Bucket lets so many units pass in a second. Who asks first and takes later may take more than
// there are: the debt is waited for by all who come next, so the sum over a longer time is that of
// the rate. The zero value lets nothing pass. It is not for concurrent use.
//
// Times are what has gone by since a fixed moment, and do not go back.
type Bucket struct {
	rate  float64 // units in a second
	units float64 // below 0: debt
	at    time.Duration
	held  bool // until a quantum has gathered
}

// SetRate sets the units in a second, 0 or more, from now on. What has gathered, or is owed, stays; a
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

// Rate returns the units in a second.
func (b *Bucket) Rate() float64 { return b.rate }

// most is what gathers at a rate: one unit at least, or it would never pass.
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

// Take takes units away, also if there are fewer.
func (b *Bucket) Take(now time.Duration, n float64) {
	b.fill(now)
	b.units -= n
}

// Wait returns how long to wait before the next Take; 0: not at all.
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

// tiny is what sums of floats may lack.
const tiny = 1e-6
