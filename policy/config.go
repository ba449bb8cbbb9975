package policy

import "github.com/quorate/quorate/quorumq"

// QueueConfig is what the machine of a queue is configured with.
func (e *Effective) QueueConfig(autoDelete bool) quorumq.Config {
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
		AutoDelete:            autoDelete,
	}
	switch e.Overflow {
	case DropHead:
		c.Overflow = quorumq.OverflowDropHead
	case RejectPublish:
		c.Overflow = quorumq.OverflowRejectPublish
	case RejectPublishDLX:
		c.Overflow = quorumq.OverflowRejectPublishDLX
	}
	switch e.OverflowVictim {
	case VictimHead:
		c.Victim = quorumq.VictimHead
	case VictimLowestPriority:
		c.Victim = quorumq.VictimLowestPriority
	case VictimOldest:
		c.Victim = quorumq.VictimOldest
	}
	if s, ok := e.EffectiveStrategy(); ok { // DL-2, DL-20
		c.DeadLetter = quorumq.DeadLetterAtMostOnce
		if s == AtLeastOnce {
			c.DeadLetter, c.BacklogLimit = quorumq.DeadLetterAtLeastOnce, e.DeadLetterBacklogLimit
		}
	}
	switch e.DeadLetterOnSwitch {
	case SwitchDrain:
		c.OnSwitch = quorumq.SwitchDrain
	case SwitchDrop:
		c.OnSwitch = quorumq.SwitchDrop
	}
	return c
}

func retryConfig(r *Retry) quorumq.Retry {
	c := quorumq.Retry{
		JitterPercent: uint8(r.JitterPercent), MinMs: r.MinMs, MaxMs: r.MaxMs, Steps: uint8(len(r.StepsMs)),
	}
	copy(c.StepsMs[:], r.StepsMs)
	switch r.Type {
	case RetryDisabled:
		return quorumq.Retry{}
	case RetryAll:
		c.Type = quorumq.RetryAll
	case RetryFailed:
		c.Type = quorumq.RetryFailed
	case RetryReturned:
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
