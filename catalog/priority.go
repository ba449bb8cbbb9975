package catalog

import (
	"math"

	"github.com/quorate/quorate/argument"
)

// Levels of a queue's machine (PR-1).
const (
	priorityLevels = 32
	// ordinaryLevel is that of a message without priority, and of all where none count.
	ordinaryLevel = 4
	// exactLevels are those that stay apart in a queue that tells more priorities apart than
	// there are levels: small ones are what programs use.
	exactLevels = 16
	// MostExactPriorities is the highest x-max-priority of which all priorities stay apart.
	MostExactPriorities = priorityLevels - 1
)

// Priorities says which of the 32 levels of a queue a message belongs to (PR-1). The zero
// value is that of quorum queues.
type Priorities struct {
	classic bool
	highest int16 // of a classic queue; 0: all are equal
}

// Priorities returns those of the queue; they never change.
func (q *QueueRecord) Priorities() Priorities {
	if q.Type != QueueClassic {
		return Priorities{}
	}
	p := Priorities{classic: true}
	if v, ok := q.Arguments.Get(argument.MaxPriority); ok {
		n, _ := v.AsInt()
		p.highest = int16(min(max(n, 0), math.MaxUint8))
	}
	return p
}

// Level returns the level of a message that asks for a priority from 0 to 255, or, below
// 0, for none. In a classic queue of more than 31 priorities those above 15 share levels
// with their neighbours.
func (p Priorities) Level(asked int16) uint8 {
	switch {
	case !p.classic && asked < 0, p.classic && p.highest == 0:
		return ordinaryLevel
	case !p.classic:
		return uint8(min(asked, priorityLevels-1))
	}
	asked = min(max(asked, 0), p.highest)
	if p.highest < priorityLevels || asked < exactLevels {
		return uint8(asked)
	}
	return uint8(exactLevels + (asked-exactLevels)*(priorityLevels-1-exactLevels)/(p.highest-exactLevels))
}
