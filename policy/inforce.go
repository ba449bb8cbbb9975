package policy

import (
	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/quorumq"
)

// InForce returns the settings in force for a declared queue: its arguments, merged with its
// policies (PO-7). They were checked before they were stored. If another version stored values that
// this version refuses, the defaults of the queue type are in force.
func (b *Matcher) InForce(v *catalog.View, q *catalog.QueueRecord) argument.Settings {
	user, operator := b.Queue(v, q)
	classic := q.Type == catalog.QueueClassic
	s, err := argument.Resolve(Merge(q.Arguments, user, operator), classic)
	if err != nil {
		return argument.Default(classic)
	}
	return s
}

// QueueConfig returns the configuration of the queue's machine.
func (b *Matcher) QueueConfig(v *catalog.View, q *catalog.QueueRecord) quorumq.Config {
	s := b.InForce(v, q)
	return s.QueueConfig(q.AutoDelete)
}

// Degraded returns why the dead-letter strategy in force is weaker than the one that is set; "" if
// it is not (DL-20).
func (b *Matcher) Degraded(v *catalog.View, q *catalog.QueueRecord) string {
	s := b.InForce(v, q)
	if holds, ok := s.EffectiveStrategy(); !ok || s.DeadLetterStrategy != argument.AtLeastOnce || holds == argument.AtLeastOnce {
		return ""
	}
	return "at-least-once needs an overflow that refuses publishes; dead letters are sent at most once"
}

// DrainsBeforeDelete reports whether the messages of a queue are dead-lettered before the queue is
// deleted.
func (b *Matcher) DrainsBeforeDelete(v *catalog.View, q *catalog.QueueRecord) bool {
	s := b.InForce(v, q)
	return s.DeadLetterOnDelete && s.HasDeadLetterExchange
}

// GroupSize returns how many members a queue should have if no operator has set its size (RE-4).
func (b *Matcher) GroupSize(v *catalog.View, q *catalog.QueueRecord) int {
	if !q.Durable {
		return 1
	}
	s := b.InForce(v, q)
	if s.TargetGroupSize > 0 {
		return s.TargetGroupSize
	}
	return s.GroupSize
}
