package broker

import (
	"errors"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// effective returns what is in force for a declared queue: its arguments with what its
// policies give (PO-7). All were checked before they were stored; arguments that this
// version refuses, left by another version, have no effect.
func (b *Broker) effective(v *catalog.View, q *catalog.QueueRecord) policy.Effective {
	user, operator := b.policies.Queue(v, q)
	e, err := policy.ResolveAs(policy.Merge(q.Arguments, user, operator), q.Type)
	if err != nil {
		return policy.Default(q.Type)
	}
	return e
}

// Degraded says why dead-lettering of a queue is weaker than its settings ask for, "" if it
// is not (DL-20); for cluster.Config.Degraded.
func (b *Broker) Degraded(v *catalog.View, q *catalog.QueueRecord) string {
	e := b.effective(v, q)
	if s, ok := e.EffectiveStrategy(); !ok || e.DeadLetterStrategy != policy.AtLeastOnce || s == policy.AtLeastOnce {
		return ""
	}
	return "at-least-once needs an overflow that refuses publishes; dead letters are sent at most once"
}

// QueueConfig is what the queue's machine is configured with; for
// cluster.Config.QueueConfig. It may be called concurrently.
func (b *Broker) QueueConfig(v *catalog.View, q *catalog.QueueRecord) quorumq.Config {
	e := b.effective(v, q)
	c := quorumq.Config{
		MaxLength:             e.MaxLength,
		MaxLengthBytes:        e.MaxLengthBytes,
		MaxLengthTotal:        e.MaxLengthTotal,
		FairPriorities:        e.FairPriorities,
		ReturnToPlace:         e.ReturnToPlace,
		Retry:                 retryConfig(&e.Retry),
		MessageTTLMs:          e.MessageTTLMs,
		DeliveryLimit:         e.DeliveryLimit,
		DisconnectedTimeoutMs: e.DisconnectedTimeoutMs,
		ConsumerTimeoutMs:     e.ConsumerTimeoutMs,
		ExpiresMs:             e.ExpiresMs,
		ExpiresIfEmpty:        e.ExpiresMs > 0 && e.ExpiresIfEmpty,
		SingleActive:          e.SingleActiveConsumer,
		AutoDelete:            q.AutoDelete,
	}
	switch e.Overflow {
	case policy.DropHead:
		c.Overflow = quorumq.OverflowDropHead
	case policy.RejectPublish:
		c.Overflow = quorumq.OverflowRejectPublish
	case policy.RejectPublishDLX:
		c.Overflow = quorumq.OverflowRejectPublishDLX
	}
	switch e.OverflowVictim {
	case policy.VictimHead:
		c.Victim = quorumq.VictimHead
	case policy.VictimLowestPriority:
		c.Victim = quorumq.VictimLowestPriority
	case policy.VictimOldest:
		c.Victim = quorumq.VictimOldest
	}
	if s, ok := e.EffectiveStrategy(); ok { // DL-2, DL-20
		c.DeadLetter = quorumq.DeadLetterAtMostOnce
		if s == policy.AtLeastOnce {
			c.DeadLetter, c.BacklogLimit = quorumq.DeadLetterAtLeastOnce, e.DeadLetterBacklogLimit
		}
	}
	switch e.DeadLetterOnSwitch {
	case policy.SwitchDrain:
		c.OnSwitch = quorumq.SwitchDrain
	case policy.SwitchDrop:
		c.OnSwitch = quorumq.SwitchDrop
	}
	return c
}

func retryConfig(r *policy.Retry) quorumq.Retry {
	c := quorumq.Retry{
		JitterPercent: uint8(r.JitterPercent), MinMs: r.MinMs, MaxMs: r.MaxMs, Steps: uint8(len(r.StepsMs)),
	}
	copy(c.StepsMs[:], r.StepsMs)
	switch r.Type {
	case policy.RetryDisabled:
		return quorumq.Retry{}
	case policy.RetryAll:
		c.Type = quorumq.RetryAll
	case policy.RetryFailed:
		c.Type = quorumq.RetryFailed
	case policy.RetryReturned:
		c.Type = quorumq.RetryReturned
	}
	switch {
	case c.Steps > 0:
		c.Backoff = quorumq.BackoffSteps
	case r.Exponential:
		c.Backoff = quorumq.BackoffExponential
	}
	return c
}

// fromArgument makes the first of policy's faults an *Error and names the others in its
// reason.
func fromArgument(err error, about Error) error {
	var first *policy.ArgumentError
	if !errors.As(err, &first) {
		return translate(err, about)
	}
	about.Class, about.Arg, about.Value, about.Reason = PreconditionFailed, first.Arg, first.Value, first.Reason
	about.cause = err
	if first.OtherType {
		about.Problem = ProblemQueueType
	}
	for _, f := range faults(err)[1:] {
		about.Reason += "; also " + f.Error()
	}
	return &about
}

// faults flattens joined errors.
func faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, faults(e)...)
	}
	return all
}
