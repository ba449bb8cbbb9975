package quorumq

import (
	"errors"
	"fmt"
)

// Overflow is what happens when a limit is reached (LEN-3 to LEN-5).
type Overflow uint8

// The overflow modes of §3.2.
const (
	OverflowDropHead Overflow = iota
	OverflowRejectPublish
	OverflowRejectPublishDLX
)

// DeadLetterMode is what happens to discarded messages (DL-2, DL-10, DL-20).
type DeadLetterMode uint8

// The modes: no dead-lettering; sent once and forgotten; kept until every target has stored the
// message.
const (
	DeadLetterDisabled DeadLetterMode = iota
	DeadLetterAtMostOnce
	DeadLetterAtLeastOnce
)

// LastDeadLetterMode is the highest of them.
const LastDeadLetterMode = DeadLetterAtLeastOnce

// String returns the word used in metrics.
func (m DeadLetterMode) String() string {
	switch m {
	case DeadLetterDisabled:
		return "disabled"
	case DeadLetterAtMostOnce:
		return "at_most_once"
	case DeadLetterAtLeastOnce:
		return "at_least_once"
	default:
		return "unknown"
	}
}

// DefaultDeliveryLimit is the delivery limit of a queue that sets none (DEL-9).
const DefaultDeliveryLimit int64 = 20

// DefaultDisconnectedTimeoutMs is how long consumers of an unreachable node keep their
// messages, in milliseconds (DC-1).
const DefaultDisconnectedTimeoutMs int64 = 60_000

// Config has the settings in force for the queue. Only the Configure command changes it, so that
// all members change at the same entry.
type Config struct {
	MaxLength             int64          `json:",omitzero"` // messages; Unlimited
	MaxLengthBytes        int64          `json:",omitzero"` // bytes of bodies (D-5); Unlimited
	Overflow              Overflow       `json:",omitzero"`
	MessageTTLMs          int64          `json:",omitzero"` // milliseconds; Unlimited
	DeadLetter            DeadLetterMode `json:",omitzero"`
	DeliveryLimit         int64          `json:",omitzero"` // failed deliveries; negative: unlimited
	DisconnectedTimeoutMs int64          `json:",omitzero"` // milliseconds
	ConsumerTimeoutMs     int64          `json:",omitzero"` // milliseconds for a delivery, if its consumer has no timeout of its own (CT-1); 0: no limit
	ExpiresMs             int64          `json:",omitzero"` // milliseconds without use after which the queue expires (QX-1); Unlimited
	ExpiresIfEmpty        bool           `json:",omitzero"` // not while it holds any message (QX-4)
	SingleActive          bool           `json:",omitzero"` // one consumer receives, the others wait (SAC-1)
	AutoDelete            bool           `json:",omitzero"` // the queue ends with its last consumer
	MaxLengthTotal        int64          `json:",omitzero"` // messages, unsettled ones included (LEN-8); Unlimited
	Victim                Victim         `json:",omitzero"`
	FairPriorities        bool           `json:",omitzero"` // levels have shares of the deliveries, instead of strict precedence (PR-3)
	ReturnToPlace         bool           `json:",omitzero"` // returned messages go back to their original position
	Retry                 Retry          `json:",omitzero"`
	// BacklogLimit permits at-least-once together with drop-head (DL-20). The backlog then does not
	// count towards the other limits, and while it holds this many messages, a new message is
	// refused instead of dropping another one. 0: the two cannot be combined.
	BacklogLimit int64    `json:",omitzero"`
	OnSwitch     OnSwitch `json:",omitzero"`
	Rules        Rules    `json:",omitzero"` // never fall
}

// OnSwitch is what happens to the dead letters in the backlog when at-least-once is switched off
// for a queue (DL-27).
type OnSwitch uint8

// The choices. If the new configuration has none, that of the previous one applies.
const (
	SwitchUnset OnSwitch = iota
	SwitchDrain          // they are still forwarded; also the default
	SwitchDrop
)

// apart reports whether the backlog has a separate limit.
func (c *Config) apart() bool {
	return c.DeadLetter == DeadLetterAtLeastOnce && c.Overflow == OverflowDropHead
}

// DefaultConfig returns the configuration of a queue declared without arguments.
func DefaultConfig() Config {
	return Config{
		MaxLength:             Unlimited,
		MaxLengthBytes:        Unlimited,
		MaxLengthTotal:        Unlimited,
		MessageTTLMs:          Unlimited,
		ExpiresMs:             Unlimited,
		DeliveryLimit:         DefaultDeliveryLimit,
		DisconnectedTimeoutMs: DefaultDisconnectedTimeoutMs,
	}
}

// Validate returns all faults of a configuration as one error; Unlimited means that a limit is not
// set.
func (c *Config) Validate() error {
	var errs []error
	atLeast := func(name string, v, least int64) {
		if v < least {
			errs = append(errs, fmt.Errorf("quorumq: %s is %d, must be at least %d", name, v, least))
		}
	}
	atLeast("MaxLength", c.MaxLength, Unlimited)
	atLeast("MaxLengthBytes", c.MaxLengthBytes, Unlimited)
	atLeast("MaxLengthTotal", c.MaxLengthTotal, Unlimited)
	atLeast("MessageTTLMs", c.MessageTTLMs, Unlimited)
	if c.ExpiresMs != Unlimited {
		atLeast("ExpiresMs", c.ExpiresMs, 1)
	}
	atLeast("DisconnectedTimeoutMs", c.DisconnectedTimeoutMs, 0)
	atLeast("ConsumerTimeoutMs", c.ConsumerTimeoutMs, 0)
	if c.Overflow > OverflowRejectPublishDLX {
		errs = append(errs, fmt.Errorf("quorumq: Overflow is %d, must be one of the Overflow modes", c.Overflow))
	}
	if c.Victim > VictimOldest {
		errs = append(errs, fmt.Errorf("quorumq: Victim is %d, must be one of the Victims", c.Victim))
	}
	if c.DeadLetter > DeadLetterAtLeastOnce {
		errs = append(errs, fmt.Errorf("quorumq: DeadLetter is %d, must be one of the DeadLetter modes", c.DeadLetter))
	}
	if c.apart() && c.BacklogLimit <= 0 {
		errs = append(errs, errors.New("quorumq: DeadLetter is at-least-once with Overflow drop-head and no BacklogLimit; resolve it to at-most-once, or set a limit or a reject overflow (DL-20)"))
	}
	atLeast("BacklogLimit", c.BacklogLimit, 0)
	if c.OnSwitch > SwitchDrop {
		errs = append(errs, fmt.Errorf("quorumq: OnSwitch is %d, must be one of the ways", c.OnSwitch))
	}
	if c.Rules != RulesOf(uint8(c.Rules)) {
		errs = append(errs, fmt.Errorf("quorumq: Rules is %d, must be one of the Rules", c.Rules))
	}
	errs = append(errs, c.Retry.validate())
	return errors.Join(errs...)
}

// Normal returns the configuration in the form that is used and stored. In it, any negative limit
// is Unlimited, and unknown modes are the default. At-least-once with drop-head becomes
// at-most-once unless the backlog has a limit of its own (DL-20), because a dropped message would
// still count.
func (c Config) Normal() Config {
	c.MaxLength = max(c.MaxLength, Unlimited)
	c.MaxLengthBytes = max(c.MaxLengthBytes, Unlimited)
	c.MaxLengthTotal = max(c.MaxLengthTotal, Unlimited)
	c.MessageTTLMs = max(c.MessageTTLMs, Unlimited)
	c.DeliveryLimit = max(c.DeliveryLimit, Unlimited)
	c.DisconnectedTimeoutMs = max(c.DisconnectedTimeoutMs, 0)
	c.ConsumerTimeoutMs = max(c.ConsumerTimeoutMs, 0)
	if c.ExpiresMs <= 0 {
		c.ExpiresMs, c.ExpiresIfEmpty = Unlimited, false
	}
	if c.Overflow > OverflowRejectPublishDLX {
		c.Overflow = OverflowDropHead
	}
	if c.Victim > VictimOldest {
		c.Victim = VictimHead
	}
	if c.DeadLetter > DeadLetterAtLeastOnce {
		c.DeadLetter = DeadLetterDisabled
	}
	c.BacklogLimit = max(c.BacklogLimit, 0)
	if c.apart() && c.BacklogLimit == 0 {
		c.DeadLetter = DeadLetterAtMostOnce
	}
	if c.OnSwitch > SwitchDrop {
		c.OnSwitch = SwitchUnset
	}
	c.Retry = c.Retry.normal()
	c.Rules = RulesOf(uint8(c.Rules))
	return c
}

// Victim selects the ready message that drop-head removes (LEN-3).
type Victim uint8

// The victims: the message that would be delivered next; the oldest of the lowest priority; the
// oldest of all.
const (
	VictimHead Victim = iota
	VictimLowestPriority
	VictimOldest
)
