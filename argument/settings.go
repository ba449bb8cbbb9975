package argument

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/quorumq"
)

// Strategy is how discarded messages are forwarded (DL-10, DL-20).
type Strategy string

// The dead-letter strategies.
const (
	AtMostOnce  Strategy = "at-most-once"
	AtLeastOnce Strategy = "at-least-once"
)

// Defaults of the table.
const (
	DefaultConsumerTimeoutMs int64 = 1_800_000
	// DefaultGroupSize is the number of members of a queue that does not ask for a number (Q-2 table).
	DefaultGroupSize = 3
)

// Quotas bound the rates at which clients use a queue; quorumq.Unlimited is no bound (VH-15).
type Quotas struct {
	MaxMessageRate int64 // messages published into it per second
	MaxByteRate    int64 // bytes of their bodies per second
	MaxConsumers   int64
}

// NoQuotas are the quotas of a queue without any.
func NoQuotas() Quotas {
	return Quotas{MaxMessageRate: quorumq.Unlimited, MaxByteRate: quorumq.Unlimited, MaxConsumers: quorumq.Unlimited}
}

// Settings are in force for one queue.
type Settings struct {
	// Config is the part of the machine's configuration that single arguments set. QueueConfig adds
	// what follows from several of them: DeadLetter, and whether BacklogLimit counts.
	quorumq.Config

	Classic              bool   // the queue type; quorum if not set
	DeadLetterExchange   string // valid when HasDeadLetterExchange; "" is the default exchange
	DeadLetterRoutingKey string // valid when HasDeadLetterRoutingKey
	DeadLetterStrategy   Strategy
	DeadLetterMaxHops    int64 // deaths above which a message is not forwarded (DL-43); 0: no limit
	Quotas               Quotas
	GroupSize            int // members at the declare; a smaller cluster uses all its nodes
	TargetGroupSize      int // members that the queue should have once there are enough nodes (RE-4); 0: GroupSize

	HasDeadLetterExchange   bool
	HasDeadLetterRoutingKey bool
	DeadLetterCycles        bool // dead letters may travel in cycles (DL-43)
	DeadLetterOnDelete      bool // a deleted queue dead-letters its messages first
	BalancedLeader          bool // any member may lead a new queue, not the one at its client (RE-2)

	// Warnings are about settings that are accepted and work differently from what they suggest (Q-8,
	// DL-20), a sentence each.
	Warnings []string
}

// Default returns the settings of a queue that is declared without arguments. Classic queues drop
// no message for failed deliveries and put returned messages back in their original position,
// because their clients rely on both (DEL-1, DEL-9).
func Default(classic bool) Settings {
	s := Settings{
		Config: quorumq.DefaultConfig(), Classic: classic, DeadLetterStrategy: AtMostOnce, GroupSize: DefaultGroupSize, Quotas: NoQuotas(),
	}
	s.ConsumerTimeoutMs = DefaultConsumerTimeoutMs
	if classic {
		s.DeliveryLimit, s.ReturnToPlace = quorumq.Unlimited, true
	}
	return s
}

// EffectiveStrategy is the strategy in force. At-least-once needs a dead-letter exchange, and an
// overflow mode that refuses publishes or a limit of the backlog; otherwise it is at-most-once
// (DL-20). ok is false when dead-lettering is disabled (DL-2).
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

// QueueConfig is the configuration of the queue's machine.
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

// finishRetry fills in the delayed-retry settings that are not given: the highest wait equals the
// lowest, and a list sets both (DR-7).
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
