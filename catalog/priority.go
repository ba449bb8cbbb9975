package catalog

import (
	"math"

	"github.com/quorate/quorate/argument"
)

// Levels of a queue's machine (PR-1).
const (
	priorityLevels = 32
	// ordinaryLevel is the level of a message without priority, and of all messages where priorities
	// do not count.
	ordinaryLevel = 4
	// exactLevels are the levels that stay distinct in a queue with more priorities than levels:
	// programs use small priorities.
	exactLevels = 16
	// MostExactPriorities is the highest x-max-priority for which all priorities stay distinct.
	MostExactPriorities = priorityLevels - 1
)

// Priorities maps the priorities of messages to the 32 levels of a queue (PR-1). The zero value is
// that of quorum queues.
type Priorities struct {
	classic bool
	highest int16 // for a classic queue; 0: all are equal
}

// Priorities returns the mapping of the queue, which never changes.
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

// Level returns the level for a priority from 0 to 255; below 0 stands for no priority. In a
// classic queue with more than 31 priorities, those above 15 share levels with their neighbours.
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
