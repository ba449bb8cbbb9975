package wal

import (
	"slices"
	"time"
)

// How long a write may take before the disk counts as hanging, see Log.Stalled.
const (
	// LeastStall is the limit for a disk that was fast recently.
	LeastStall = 450 * time.Millisecond
	// MostStall is the limit for any disk.
	MostStall = 1500 * time.Millisecond
	// stallFactor is how many times the usual length of a slow write it may take.
	stallFactor = 3
)

const (
	paceSlot  = 5 * time.Second // of which the slowest write counts
	paceSlots = 12              // that are remembered
	// slowSlots is in how many of them writes must have been slow.
	slowSlots = 3
)

// pace knows how slow the writes of the last minute were. A disk that is slow is slow again
// and again; what was slow once or twice was frozen for a moment, or busy with something
// else. So slowSlots of the time have to have had a slow write. A write that took MostStall was a disk that hung, and
// is no sign of what is usual.
//
// The zero value has seen nothing. Times are since any beginning.
type pace struct {
	newest  int64 // number of the slot that was written last
	slowest [paceSlots]time.Duration
}

// observe records a write that has ended.
func (p *pace) observe(now, d time.Duration) {
	p.forget(now)
	if d < MostStall {
		at := &p.slowest[p.newest%paceSlots]
		*at = max(*at, d)
	}
}

// limit is how long a write that is under way may take.
func (p *pace) limit(now time.Duration) time.Duration {
	p.forget(now)
	slowest := p.slowest
	slices.Sort(slowest[:])
	return min(max(LeastStall, stallFactor*slowest[paceSlots-slowSlots]), MostStall)
}

// forget empties the slots of times that have gone by.
func (p *pace) forget(now time.Duration) {
	slot := int64(now / paceSlot)
	for range min(max(0, slot-p.newest), paceSlots) {
		p.newest++
		p.slowest[p.newest%paceSlots] = 0
	}
	p.newest = max(p.newest, slot)
}
