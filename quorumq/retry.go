package quorumq

import (
	"errors"
	"fmt"
	"math"
)

// RetryType selects the returned messages that wait before they are ready again (DR-1).
type RetryType uint8

// The types: none; all; those whose delivery failed; those whose delivery did not.
const (
	RetryDisabled RetryType = iota
	RetryAll
	RetryFailed
	RetryReturned
)

// Backoff selects how the wait grows with the failed deliveries of a message (DR-7).
type Backoff uint8

// The shapes: the minimum times the number of failures; doubled with each failure; from a list,
// whose last wait repeats.
const (
	BackoffLinear Backoff = iota
	BackoffExponential
	BackoffSteps
)

// MaxRetrySteps limits the number of waits in a list.
const MaxRetrySteps = 16

// MaxRetryJitterPercent limits the jitter.
const MaxRetryJitterPercent = 100

// Retry defines how long returned messages wait (DR-1, DR-2, DR-7). With the zero value none wait.
type Retry struct {
	Type    RetryType
	Backoff Backoff
	// JitterPercent is the maximum by which a wait exceeds that of the shape. The actual jitter is
	// computed from message and count, so that all members agree.
	JitterPercent uint8
	Steps         uint8                // how many of StepsMs are used, with BackoffSteps
	MinMs         int64                // milliseconds, from 1; no wait is shorter
	MaxMs         int64                // milliseconds, from MinMs; no wait is longer, except for jitter
	StepsMs       [MaxRetrySteps]int64 // milliseconds, from 1
}

// applies reports whether a returned message must wait (DR-1).
func (r *Retry) applies(failed bool) bool {
	switch r.Type {
	case RetryAll:
		return true
	case RetryFailed:
		return failed
	case RetryReturned:
		return !failed
	case RetryDisabled:
	}
	return false
}

// wait returns how long a message waits after so many failures, in milliseconds (DR-2). The seed
// decides the jitter.
func (r *Retry) wait(failures uint32, seed uint64) int64 {
	n := int64(max(failures, 1))
	ms := r.MaxMs
	switch r.Backoff {
	case BackoffLinear:
		if r.MinMs <= r.MaxMs/n {
			ms = r.MinMs * n
		}
	case BackoffExponential:
		if n <= 62 && r.MinMs <= r.MaxMs>>(n-1) {
			ms = r.MinMs << (n - 1)
		}
	case BackoffSteps:
		ms = r.StepsMs[min(n, int64(r.Steps))-1]
	}
	ms = min(max(ms, r.MinMs), r.MaxMs)
	if r.JitterPercent == 0 {
		return ms
	}
	percent := int64(r.JitterPercent)
	span := ms/100*percent + ms%100*percent/100 // at most ms
	more := int64(scatter(seed) % uint64(span+1))
	if more > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return ms + more
}

// scatter spreads numbers evenly over 63 bits.
func scatter(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return (v ^ v>>31) >> 1
}

// normal returns the one form in which it is kept and stored.
func (r Retry) normal() Retry {
	if r.Type == RetryDisabled || r.Type > RetryReturned {
		return Retry{}
	}
	r.Steps = min(r.Steps, MaxRetrySteps)
	if r.Backoff > BackoffSteps || r.Backoff == BackoffSteps && r.Steps == 0 {
		r.Backoff = BackoffLinear
	}
	if r.Backoff != BackoffSteps {
		r.Steps = 0
	}
	r.JitterPercent = min(r.JitterPercent, MaxRetryJitterPercent)
	r.MinMs = max(r.MinMs, 1)
	r.MaxMs = max(r.MaxMs, r.MinMs)
	for i := range r.StepsMs {
		if i < int(r.Steps) {
			r.StepsMs[i] = max(r.StepsMs[i], 1)
		} else {
			r.StepsMs[i] = 0
		}
	}
	return r
}

// validate returns all faults as one error.
func (r *Retry) validate() error {
	if r.Type == RetryDisabled {
		return nil
	}
	var errs []error
	wrong := func(name string, v any, want string) {
		errs = append(errs, fmt.Errorf("quorumq: %s is %v, must be %s", name, v, want))
	}
	if r.Type > RetryReturned {
		wrong("Retry.Type", r.Type, "one of the Retry types")
	}
	if r.Backoff > BackoffSteps {
		wrong("Retry.Backoff", r.Backoff, "one of the Backoff shapes")
	}
	if r.JitterPercent > MaxRetryJitterPercent {
		wrong("Retry.JitterPercent", r.JitterPercent, fmt.Sprintf("at most %d", MaxRetryJitterPercent))
	}
	if r.MinMs < 1 {
		wrong("Retry.MinMs", r.MinMs, "at least 1")
	}
	if r.MaxMs < r.MinMs {
		wrong("Retry.MaxMs", r.MaxMs, "at least MinMs")
	}
	if r.Steps > MaxRetrySteps || (r.Backoff == BackoffSteps) != (r.Steps > 0) {
		wrong("Retry.Steps", r.Steps, fmt.Sprintf("1 to %d with BackoffSteps, else 0", MaxRetrySteps))
		return errors.Join(errs...)
	}
	for _, ms := range r.StepsMs[:r.Steps] {
		if ms < 1 {
			wrong("Retry.StepsMs", ms, "at least 1")
		}
	}
	return errors.Join(errs...)
}
