// Package policy says what is in force for a queue: it checks the arguments of a declare
// against the table of arguments and resolves them to one Effective value.
//
// The package only computes. In this version arguments are the only source; policies and
// operator policies will be merged into the same Effective.
package policy

import (
	"fmt"

	"github.com/quorate/quorate/catalog"
)

// Overflow says what happens when a queue's limit is reached (LEN-3 to LEN-5).
type Overflow string

// The overflow modes.
const (
	DropHead         Overflow = "drop-head"
	RejectPublish    Overflow = "reject-publish"
	RejectPublishDLX Overflow = "reject-publish-dlx"
)

// Victim says which ready message drop-head removes (LEN-3).
type Victim string

// The victims.
const (
	VictimHead           Victim = "head"
	VictimLowestPriority Victim = "lowest-priority"
	VictimOldest         Victim = "oldest"
)

// Strategy is how discarded messages are handed on (DL-10, DL-20).
type Strategy string

// The dead-letter strategies.
const (
	AtMostOnce  Strategy = "at-most-once"
	AtLeastOnce Strategy = "at-least-once"
)

// LeaderLocator says which member leads a new queue (RE-2).
type LeaderLocator string

// The leader locators; random and least-leaders are read as balanced.
const (
	ClientLocal LeaderLocator = "client-local"
	Balanced    LeaderLocator = "balanced"
)

// Unlimited is the value of a limit or time that is not set.
const Unlimited int64 = -1

// Defaults and bounds of the table of arguments.
const (
	DefaultDeliveryLimit         int64 = 20
	DefaultDisconnectedTimeoutMs int64 = 60_000
	DefaultConsumerTimeoutMs     int64 = 1_800_000
	DefaultGroupSize                   = 3
	// MaxTimeMs is the highest x-message-ttl and x-expires, ten years in milliseconds.
	MaxTimeMs int64 = 315_360_000_000
)

// Effective is what is in force for one queue.
type Effective struct {
	QueueType             catalog.QueueType
	MaxLength             int64 // messages, or Unlimited
	MaxLengthBytes        int64 // bytes of bodies, or Unlimited
	MaxLengthTotal        int64 // messages, unsettled ones included, or Unlimited (LEN-8)
	Overflow              Overflow
	OverflowVictim        Victim
	FairPriorities        bool // shares in place of strict precedence (PR-3)
	ReturnToPlace         bool // returned messages go back to where they stood
	Retry                 Retry
	MessageTTLMs          int64  // milliseconds, or Unlimited
	ExpiresMs             int64  // milliseconds, or Unlimited
	ExpiresIfEmpty        bool   // not while the queue holds messages (QX-4)
	DeadLetterExchange    string // valid when HasDeadLetterExchange; "" is the default exchange
	DeadLetterRoutingKey  string // valid when HasDeadLetterRoutingKey
	DeadLetterStrategy    Strategy
	DeliveryLimit         int64 // failed deliveries, or Unlimited
	DisconnectedTimeoutMs int64 // milliseconds
	ConsumerTimeoutMs     int64 // milliseconds; 0: none
	GroupSize             int   // members wanted at the declare; a smaller cluster gives all its nodes
	TargetGroupSize       int   // members that the queue should have when there are nodes for them (RE-4); 0: GroupSize
	LeaderLocator         LeaderLocator

	// DeadLetterBacklogLimit, in messages, lets at-least-once go together with drop-head
	// (DL-20); 0: it does not.
	DeadLetterBacklogLimit int64
	DeadLetterOnSwitch     OnSwitch // "": nobody says (DL-27)
	DeadLetterCycles       bool     // letters may go round (DL-43)
	DeadLetterOnDelete     bool     // what a deleted queue holds is dead-lettered first
	DeadLetterMaxHops      int64    // deaths of a message above which it goes nowhere (DL-43); 0: no limit

	Quotas Quotas

	HasDeadLetterExchange   bool
	HasDeadLetterRoutingKey bool
	SingleActiveConsumer    bool

	// Warnings tell what is accepted and yet not what it looks like (Q-8, DL-20), a
	// sentence each.
	Warnings []string
}

// Default returns what is in force for a queue of a type that is declared without arguments.
// Classic ones drop no message for its failures, and returned messages go back to where they
// stood: their clients rely on both (DEL-1, DEL-9).
func Default(t catalog.QueueType) Effective {
	e := Effective{
		MaxLength:             Unlimited,
		MaxLengthBytes:        Unlimited,
		MaxLengthTotal:        Unlimited,
		Overflow:              DropHead,
		OverflowVictim:        VictimHead,
		Retry:                 Retry{Type: RetryDisabled},
		MessageTTLMs:          Unlimited,
		ExpiresMs:             Unlimited,
		DeadLetterStrategy:    AtMostOnce,
		DeliveryLimit:         DefaultDeliveryLimit,
		DisconnectedTimeoutMs: DefaultDisconnectedTimeoutMs,
		ConsumerTimeoutMs:     DefaultConsumerTimeoutMs,
		GroupSize:             DefaultGroupSize,
		LeaderLocator:         ClientLocal,
		Quotas:                NoQuotas(),
	}
	if e.QueueType = t; t == catalog.QueueClassic {
		e.DeliveryLimit, e.ReturnToPlace = Unlimited, true
	}
	return e
}

// EffectiveStrategy is the strategy that holds: at-least-once needs a dead-letter exchange
// and an overflow mode that refuses publishes, or a limit of the backlog, else it is
// at-most-once (DL-20). ok is false when dead-lettering is disabled (DL-2).
func (e *Effective) EffectiveStrategy() (s Strategy, ok bool) {
	if !e.HasDeadLetterExchange {
		return "", false
	}
	if e.DeadLetterStrategy == AtLeastOnce && (e.Overflow != DropHead || e.DeadLetterBacklogLimit > 0) {
		return AtLeastOnce, true
	}
	return AtMostOnce, true
}

// warn fills Warnings from the other fields.
func (e *Effective) warn(strategySet bool) {
	switch {
	case strategySet && !e.HasDeadLetterExchange:
		e.Warnings = append(e.Warnings, fmt.Sprintf(
			"x-dead-letter-strategy %q without x-dead-letter-exchange: dead-lettering stays disabled", e.DeadLetterStrategy))
	case e.HasDeadLetterExchange && e.DeadLetterStrategy == AtLeastOnce && e.Overflow == DropHead && e.DeadLetterBacklogLimit == 0: // DL-20
		e.Warnings = append(e.Warnings, fmt.Sprintf(
			"x-dead-letter-strategy %q with x-overflow %q: works as %q; set x-overflow to %q or %q, or set %s",
			AtLeastOnce, DropHead, AtMostOnce, RejectPublish, RejectPublishDLX, argBacklogLimit))
	}
	if e.DeadLetterOnDelete && !e.HasDeadLetterExchange {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%s %q without x-dead-letter-exchange: messages of a deleted queue are dropped",
			catalog.ArgOnDelete, catalog.OnDeleteDeadLetter))
	}
}

// ArgumentError is an argument or property of a declare that is refused
// (PRECONDITION_FAILED).
type ArgumentError struct {
	Arg    string // "x-max-length", "durable", ...
	Value  string // as received
	Reason string // what is wrong and what would be right
	// OtherType tells that the argument is one of queues of another type.
	OtherType bool
}

// Error names the argument, its value and the remedy.
func (e *ArgumentError) Error() string {
	return fmt.Sprintf("argument %s = %s: %s", e.Arg, e.Value, e.Reason)
}
