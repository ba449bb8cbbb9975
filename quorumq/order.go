package quorumq

import "math/bits"

// weightedRoundRobin decides which level comes next in a queue whose priorities are shares (PR-3):
// from the highest level down, level l gives l+1 messages in turn.
type weightedRoundRobin struct {
	level uint8
	left  uint8 // messages that the level may still give before the next one; at most level
}

// of returns the next level among those whose bit is set; at least one must be.
func (r *weightedRoundRobin) of(occupied uint32) int {
	if r.left > 0 && occupied&(1<<r.level) != 0 {
		return int(r.level)
	}
	if below := occupied & (1<<r.level - 1); below != 0 {
		occupied = below
	}
	return bits.Len32(occupied) - 1
}

// took records that a message of a level was taken.
func (r *weightedRoundRobin) took(level int) {
	if r.left > 0 && int(r.level) == level {
		r.left--
		return
	}
	r.level, r.left = uint8(level), uint8(level)
}

// originalPositions finds returned messages by their ordinal, level by level, in queues where they
// return to their original position. Entries stay after their messages until they reach the top, or
// until tidy.
type originalPositions struct {
	heaps    [levels]heap[listEntry]
	occupied uint32 // levels with entries
	entries  int    // of all heaps
}

// push adds a returned message.
func (p *originalPositions) push(r *returned) {
	l := r.level()
	p.heaps[l].push(listEntry{ord: r.ord, number: r.number})
	p.occupied |= 1 << l
	p.entries++
}

// pop removes the first entry of a level.
func (p *originalPositions) pop(l int) {
	p.heaps[l].pop()
	p.entries--
	if len(p.heaps[l].entries) == 0 {
		p.occupied &^= 1 << l
	}
}

// listEntry is an entry of a heap over a list whose messages have numbers of their own: the
// returned or the delayed ones. What at stands for depends on the heap: a time, or a priority
// level.
type listEntry struct {
	at     Time
	ord    uint64
	number uint64
}

func (a listEntry) before(b listEntry) bool {
	return a.at < b.at || a.at == b.at && a.ord < b.ord
}
