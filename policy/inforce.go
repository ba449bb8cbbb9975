package policy

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/quorumq"
)

// InForce returns what is in force for a declared queue: its arguments with what its
// policies give (PO-7). All were checked before they were stored; where this version
// refuses some, left by another version, the defaults of the type are in force.
func (b *Book) InForce(v *catalog.View, q *catalog.QueueRecord) Effective {
	user, operator := b.Queue(v, q)
	e, err := ResolveAs(Merge(q.Arguments, user, operator), q.Type)
	if err != nil {
		return Default(q.Type)
	}
	return e
}

// QueueConfig is what the queue's machine is configured with.
func (b *Book) QueueConfig(v *catalog.View, q *catalog.QueueRecord) quorumq.Config {
	e := b.InForce(v, q)
	return e.QueueConfig(q.AutoDelete)
}

// Degraded says why dead-lettering of a queue is weaker than its settings ask for, "" if it
// is not (DL-20).
func (b *Book) Degraded(v *catalog.View, q *catalog.QueueRecord) string {
	e := b.InForce(v, q)
	if s, ok := e.EffectiveStrategy(); !ok || e.DeadLetterStrategy != AtLeastOnce || s == AtLeastOnce {
		return ""
	}
	return "at-least-once needs an overflow that refuses publishes; dead letters are sent at most once"
}

// DrainsBeforeDelete tells whether what a queue holds is dead-lettered before it is deleted
//
func (b *Book) DrainsBeforeDelete(v *catalog.View, q *catalog.QueueRecord) bool {
	e := b.InForce(v, q)
	return e.DeadLetterOnDelete && e.HasDeadLetterExchange
}

// GroupSize returns how many members a queue should have if no operator has chosen (RE-4).
func (b *Book) GroupSize(v *catalog.View, q *catalog.QueueRecord) int {
	if !q.Durable {
		return 1
	}
	e := b.InForce(v, q)
	if e.TargetGroupSize > 0 {
		return e.TargetGroupSize
	}
	return e.GroupSize
}
