package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryType says which returned messages wait before they are ready again (DR-1).
type RetryType string

// The types.
const (
	RetryDisabled RetryType = "disabled"
	RetryAll      RetryType = "all"
	RetryFailed   RetryType = "failed"
	RetryReturned RetryType = "returned"
)

// Shapes of the back-off that have a name; any other is a list of waits (DR-7).
const (
	backoffLinear      = "linear"
	backoffExponential = "exponential"
)

// Bounds of delayed retry.
const (
	MaxRetrySteps         = 16
	MaxRetryJitterPercent = 100
)

// Retry is the delayed retry of a queue.
type Retry struct {
	Type RetryType
	// Exponential doubles the wait with each failure; without it, and without Steps, it grows
	// by the least one.
	Exponential   bool
	MinMs, MaxMs  int64   // milliseconds
	StepsMs       []int64 // milliseconds; the wait after the first failure, the second ...
	JitterPercent int
}

// delayedRetry reads what the queue does with returned messages (Q-10, DR-1, DR-7). It
// checks all, also where type is disabled.
func (a *arguments) delayedRetry(e *Effective) {
	kind, _ := a.oneOf(argRetryType, string(RetryDisabled), string(RetryAll), string(RetryFailed), string(RetryReturned))
	r := Retry{Type: RetryType(kind)}
	var hasLow, hasHigh bool
	r.MinMs, hasLow = a.integer(argRetryMin, 1, math.MaxInt64)
	r.MaxMs, hasHigh = a.integer(argRetryMax, 1, math.MaxInt64)
	jitter, _ := a.integer(argRetryJitter, 0, MaxRetryJitterPercent)
	r.JitterPercent = int(jitter)
	r.Exponential, r.StepsMs = a.backoff()
	if hasLow && hasHigh && r.MaxMs < r.MinMs {
		a.fault(argRetryMax, strconv.FormatInt(r.MaxMs, 10), fmt.Sprintf("below %s = %d", argRetryMin, r.MinMs))
	}
	if kind == "" || r.Type == RetryDisabled {
		return
	}
	if len(r.StepsMs) > 0 {
		if !hasHigh {
			r.MaxMs = max(slices.Max(r.StepsMs), r.MinMs)
		}
		if !hasLow {
			r.MinMs = min(slices.Min(r.StepsMs), r.MaxMs)
		}
		e.Retry = r
		return
	}
	if _, present := a.table.Get(argRetryMin); !present {
		a.fault(argRetryType, strconv.Quote(kind), "needs the argument "+argRetryMin+" as well")
	}
	if !hasHigh {
		r.MaxMs = r.MinMs
		if r.Type != RetryReturned { // D-8
			e.Warnings = append(e.Warnings, fmt.Sprintf(
				"%s %q without %s: every wait is %s; set a maximum for waits to grow", argRetryType, kind, argRetryMax, argRetryMin))
		}
	}
	e.Retry = r
}

// backoff reads the shape.
func (a *arguments) backoff() (exponential bool, steps []int64) {
	s, ok := a.text(argRetryBackoff)
	switch {
	case !ok || s == backoffLinear:
		return false, nil
	case s == backoffExponential:
		return true, nil
	}
	const want = `want linear, exponential, or a list of at most 16 waits from 1ms on such as "1s,5s,30s"`
	words := strings.Split(s, ",")
	for _, w := range words {
		d, err := time.ParseDuration(strings.TrimSpace(w))
		if err != nil || d < time.Millisecond || d.Milliseconds() > MaxTimeMs || len(words) > MaxRetrySteps {
			a.fault(argRetryBackoff, strconv.Quote(s), want)
			return false, nil
		}
		steps = append(steps, d.Milliseconds())
	}
	return false, steps
}
