// Package deadletter forwards discarded messages to the queues that the dead-letter exchange routes
// them to. Rewrite changes a message into a dead letter, Cyclic detects endless cycles, a Forwarder
// forwards a queue's backlog at least once without duplicates, and a Copier sends at-most-once
// copies.
//
// The package does not depend on a cluster: it uses one through Source, Router and Sender.
// DESIGN.md describes the Forwarder.
package deadletter

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/tracing"
)

// Defaults and limits of Config.
const (
	DefaultPrefetch = 32
	MaxPrefetch     = 10_000
	// DefaultWindowBytes is the size up to which the default window may hold more than
	// DefaultPrefetch messages, but no more than DefaultMaxWindow. At most half of it is in flight
	// at a time.
	DefaultWindowBytes = 512 << 10
	DefaultMaxWindow   = 2048

	DefaultMinBackoff = 100 * time.Millisecond
	DefaultMaxBackoff = 5 * time.Second

	DefaultMaxDeadLetters = 1 << 16
	DefaultMaxCopies      = 1 << 18
)

// Config has the limits of a Forwarder and a Copier. Zero values are the defaults.
type Config struct {
	// Prefetch is how many messages of one source queue may be in memory with their bodies (DL-22),
	// at most 10,000; 0: 32, and up to 2048 while their bodies are less than 512 KiB together.
	Prefetch int
	// MinBackoff and MaxBackoff limit the wait before the next attempt if no event comes first
	// (DL-24); 0: 100 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration
	// MaxDeadLetters limits the dead letters that a Forwarder remembers without their bodies: those
	// that wait for a blocked target and let later ones pass. 0: 65,536.
	MaxDeadLetters int
	// MaxCopies limits the at-most-once copies that wait to be sent; further ones are lost and
	// counted (DL-10). 0: 262,144.
	MaxCopies int
	// Chance returns the jitter, a number in [0, 1); nil: a random one.
	Chance func() float64
	Tracer *tracing.Tracer // nil: nothing is traced
	Logger *slog.Logger    // nil: nothing is logged
	// OnBlocked is called when dead letters begin to wait, with the cause and the reason, and when none
	// waits any more, with both empty. It must not block; nil: nothing is called.
	OnBlocked func(cause, reason string)

	// These follow from Prefetch. transfer and transferBytes bound one Transfer.
	window, windowBytes     int
	transfer, transferBytes int
}

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Prefetch < 0 || c.Prefetch > MaxPrefetch {
		errs = append(errs, fmt.Errorf("deadletter: Prefetch = %d: want 0 (default %d) to %d", c.Prefetch, DefaultPrefetch, MaxPrefetch))
	}
	if c.MinBackoff < 0 || c.MaxBackoff < 0 {
		errs = append(errs, errors.New("deadletter: MinBackoff and MaxBackoff: want 0 (default) or more"))
	}
	if c.MaxBackoff > 0 && c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("deadletter: MaxBackoff = %v: below MinBackoff = %v", c.MaxBackoff, c.MinBackoff))
	}
	if c.MaxDeadLetters < 0 || c.MaxCopies < 0 {
		errs = append(errs, errors.New("deadletter: MaxDeadLetters and MaxCopies: want 0 (default) or more"))
	}
	return errors.Join(errs...)
}

// withDefaults keeps a window that was asked for: then one transfer may fill it.
func (c Config) withDefaults() Config {
	set := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	c.window, c.transfer, c.transferBytes = c.Prefetch, c.Prefetch, maxTransferBytes
	if c.Prefetch == 0 {
		c.Prefetch, c.window, c.windowBytes = DefaultPrefetch, DefaultMaxWindow, DefaultWindowBytes
		c.transfer, c.transferBytes = c.window/2, c.windowBytes/2
	}
	set(&c.MaxDeadLetters, DefaultMaxDeadLetters)
	set(&c.MaxCopies, DefaultMaxCopies)
	c.MaxDeadLetters = max(c.MaxDeadLetters, c.window)
	if c.MinBackoff == 0 {
		c.MinBackoff = DefaultMinBackoff
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(DefaultMaxBackoff, c.MinBackoff)
	}
	if c.Chance == nil {
		c.Chance = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
