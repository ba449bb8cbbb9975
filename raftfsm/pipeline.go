package raftfsm

import (
	"sync/atomic"
	"time"
)

const (
	// pipelineEntries is how many entries of a node's groups may be in flight before a group has only one.
	pipelineEntries = 16
	// pipelineMessages is how many bodies of a group, in flight and waiting, make it worth that some wait. Those of fewer
	// would wait in vain for others.
	pipelineMessages = 4
	// pipelineBytes of a group, in flight and waiting, cost so much by themselves that fewer entries are no gain.
	pipelineBytes = 32 << 10
	// pipelineMost bounds how long the next entry of a group waits behind the last one: on a node that is too busy for
	// its work, messages that pass many queues would wait twice as long at each.
	pipelineMost = 50 * time.Millisecond
	// pipelinePays is the least number of bodies in an entry that has waited for which that was worth it.
	pipelinePays = 3
)

// Pipeline counts the entries in flight of all groups that a node leads. An entry costs all members the same whatever it
// carries, and what waits for the one in flight shares the next. So while a node has many in flight, a group with several
// messages has one; while it has few, there are processors left for more, and confirms need not wait.
type Pipeline struct{ entries atomic.Int64 }

// free reports whether a group that has an entry in flight may have another one.
func (p *Pipeline) free() bool { return p.entries.Load() < pipelineEntries }

// turn is a group's wait for its entry on its way. Publishers that wait for confirms send little meanwhile, and would be
// slowed down for nothing: after an entry that has waited and has few bodies, the next ones do not wait, the more of them
// the more often that has happened running. The proposer's lock guards it.
type turn struct {
	waits  bool        // the timer runs
	timer  *time.Timer // nil before the first
	waited bool        // the next entry has
	vain   int         // how often running
	skip   int         // entries that do not wait
}

// leaves records that an entry with so many bodies leaves.
func (t *turn) leaves(bodies int) {
	switch {
	case !t.waited:
		t.skip = max(0, t.skip-1)
	case bodies >= pipelinePays:
		t.vain = 0
	default:
		t.vain++
		t.skip = min(skipFirst<<min(t.vain-1, 16), skipMost)
	}
	t.waited = false
}

// waitTurn reports whether the next entry is to wait for the last one; then a step is asked for when that has taken long.
// It is called with the lock held, while an entry is on its way.
func (p *proposer[R]) waitTurn() bool {
	wait := pipelineMost - time.Since(p.inFlight[len(p.inFlight)-1].left)
	switch {
	case wait <= 0:
		return false
	case p.turn.waits:
		p.turn.waited = true
		return true
	case p.turn.timer == nil:
		p.turn.timer = time.AfterFunc(wait, p.turnIsLong)
	default:
		p.turn.timer.Reset(wait)
	}
	p.turn.waits, p.turn.waited = true, true
	return true
}

func (p *proposer[R]) turnIsLong() {
	p.mu.Lock()
	p.turn.waits = false
	closed := p.closed
	p.mu.Unlock()
	if !closed {
		p.signal()
	}
}

// endTurn stops the timer when an entry has landed. It is called with the lock held.
func (p *proposer[R]) endTurn() {
	if p.turn.waits && p.turn.timer.Stop() {
		p.turn.waits = false
	}
}
