package argument

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/quorumq"
)

// Strategy is how discarded messages are handed on (DL-10, DL-20).
type Strategy string

// The dead-letter strategies.
const (
	AtMostOnce  Strategy = "at-most-once"
	AtLeastOnce Strategy = "at-least-once"
)

// Defaults of the table.
const (
	DefaultConsumerTimeoutMs int64 = 1_800_000
	// DefaultGroupSize is the number of members of a queue that asks for none (Q-2 table).
	DefaultGroupSize = 3
)

// Settings are what is in force for one queue.
type Settings struct {
	// Config is what the arguments say of the machine's configuration. What follows from several of
	// them is in that of QueueConfig alone: DeadLetter, and whether BacklogLimit counts.
	quorumq.Config

	Classic              bool   // the type; quorum otherwise
	DeadLetterExchange   string // valid when HasDeadLetterExchange; "" is the default exchange
	DeadLetterRoutingKey string // valid when HasDeadLetterRoutingKey
	DeadLetterStrategy   Strategy
	DeadLetterMaxHops    int64 // deaths of a message above which it goes nowhere (DL-43); 0: no limit
	GroupSize            int   // members wanted at the declare; a smaller cluster gives all its nodes
	TargetGroupSize      int   // members that the queue should have when there are nodes for them (RE-4); 0: GroupSize

	HasDeadLetterExchange   bool
	HasDeadLetterRoutingKey bool
	DeadLetterCycles        bool // letters may go round (DL-43)
	DeadLetterOnDelete      bool // what a deleted queue holds is dead-lettered first
	BalancedLeader          bool // any member leads a new queue, not the one at its client (RE-2)

	// Warnings tell what is accepted and yet not what it looks like (Q-8, DL-20), a
	// sentence each.
	Warnings []string
}

// Default returns what is in force for a queue that is declared without arguments. Classic ones drop
// no message for its failures, and returned messages go back to where they stood: their clients rely
// on both (DEL-1, DEL-9).
func Default(classic bool) Settings {
	s := Settings{
		Config: quorumq.DefaultConfig(), Classic: classic, DeadLetterStrategy: AtMostOnce, GroupSize: DefaultGroupSize,
	}
	s.ConsumerTimeoutMs = DefaultConsumerTimeoutMs
	if classic {
		s.DeliveryLimit, s.ReturnToPlace = quorumq.Unlimited, true
	}
	return s
}

// EffectiveStrategy is the strategy that holds: at-least-once needs a dead-letter exchange
// and an overflow mode that refuses publishes, or a limit of the backlog, else it is
// at-most-once (DL-20). ok is false when dead-lettering is disabled (DL-2).
func (s *Settings) EffectiveStrategy() (holds Strategy, ok bool) {
	if !s.HasDeadLetterExchange {
		return "", false
	}
	if s.DeadLetterStrategy == AtLeastOnce && !s.degrades() {
		return AtLeastOnce, true
	}
	return AtMostOnce, true
}

func (s *Settings) degrades() bool {
	return s.Overflow == quorumq.OverflowDropHead && s.BacklogLimit == 0
}

// QueueConfig is what the machine of a queue is configured with.
func (s *Settings) QueueConfig(autoDelete bool) quorumq.Config {
	c := s.Config
	c.AutoDelete = autoDelete
	c.ExpiresIfEmpty = c.ExpiresMs > 0 && c.ExpiresIfEmpty
	switch holds, ok := s.EffectiveStrategy(); {
	case !ok: // DL-2
		c.DeadLetter = quorumq.DeadLetterDisabled
	case holds == AtLeastOnce:
		c.DeadLetter = quorumq.DeadLetterAtLeastOnce
	default:
		c.DeadLetter = quorumq.DeadLetterAtMostOnce
	}
	if c.DeadLetter != quorumq.DeadLetterAtLeastOnce {
		c.BacklogLimit = 0
	}
	return c
}

// warn fills Warnings from the other fields.
func (s *Settings) warn(strategySet bool) {
	switch {
	case strategySet && !s.HasDeadLetterExchange:
		s.warnf("%s %q without %s: dead-lettering stays disabled", dlStrategy, s.DeadLetterStrategy, dlExchange)
	case s.HasDeadLetterExchange && s.DeadLetterStrategy == AtLeastOnce && s.degrades(): // DL-20
		s.warnf("%s %q with %s %q: works as %q; set %s to %q or %q, or set %s",
			dlStrategy, AtLeastOnce, Overflow, "drop-head", AtMostOnce, Overflow, "reject-publish", "reject-publish-dlx", backlogLimit)
	}
	if s.DeadLetterOnDelete && !s.HasDeadLetterExchange {
		s.warnf("%s %q without %s: messages of a deleted queue are dropped", OnDelete, OnDeleteDeadLetter, dlExchange)
	}
}

func (s *Settings) warnf(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// finishRetry fills in what is not said of delayed retry: the highest wait is the lowest one, both
// are those of a list (DR-7).
func (s *Settings) finishRetry() {
	r := &s.Retry
	switch {
	case r.Type == quorumq.RetryDisabled:
		*r = quorumq.Retry{}
	case r.Steps > 0:
		steps := r.StepsMs[:r.Steps]
		if r.MaxMs == 0 {
			r.MaxMs = max(slices.Max(steps), r.MinMs)
		}
		if r.MinMs == 0 {
			r.MinMs = min(slices.Min(steps), r.MaxMs)
		}
	case r.MaxMs == 0:
		r.MaxMs = r.MinMs
	}
}
