package raftfsm

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

// answer answers what is left of items with an error.
func answer[R any](items []item[R], err error) {
	var none R
	for i := range items { // a step may be taking the command out of its item
		items[i].done(none, err)
	}
}

// refuseQueue answers what was not handed to raft.
func (g *Group[R, E]) refuseQueue(err error) {
	p := &g.proposer
	p.mu.Lock()
	queue := p.queue
	p.queue, p.queued, p.gather.messages = nil, 0, 0
	p.deferrable.others, p.deferrable.due, p.turn.waited = 0, false, false
	for i := range queue {
		p.pending -= queue[i].bytes
		p.bodies -= len(queue[i].command.Bodies)
	}
	p.mu.Unlock()
	answer(queue, err)
}

// refuseAll answers all commands for good: what raft has may or may not be applied.
func (g *Group[R, E]) refuseAll() {
	p := &g.proposer
	p.mu.Lock()
	p.closed = true
	inFlight := append([]*pendingEntry[R](nil), p.inFlight...)
	for range inFlight {
		p.remove(0)
	}
	p.mu.Unlock()
	for _, f := range inFlight {
		answer(f.items, ErrUnknownOutcome)
	}
	g.refuseQueue(g.stopped())
}

// Drain refuses new commands from now on, and waits until raft has answered those that it has, or ctx ends. Close waits
// for none of them then. It is for who closes many members, which are to wait for no longer than one. A second call does
// nothing.
func (g *Group[R, E]) Drain(ctx context.Context) {
	p := &g.proposer
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	var drained chan struct{}
	if len(p.inFlight) > 0 {
		drained = make(chan struct{})
		p.drained = drained
	}
	p.mu.Unlock()
	g.refuseQueue(ErrStopped)
	if drained == nil {
		return
	}
	select {
	case <-drained:
	case <-ctx.Done():
	case <-g.stop:
	}
}

// awaitDoubtful starts a goroutine that waits for raft's result for entries in flight that may never be applied:
// those of a leadership that is over, and, once a transfer of leadership was tried, those of this one, since raft
// refuses entries during a transfer and somewhat longer. What raft applies is answered by applyEntry as ever.
func (g *Group[R, E]) awaitDoubtful() {
	p := &g.proposer
	p.mu.Lock()
	start := !p.awaiting && p.doubtful() != nil
	if start {
		p.awaiting = true
	}
	p.mu.Unlock()
	if start {
		go g.completeDoubtful()
	}
}

// doubtful is called with the lock held.
func (p *proposer[R]) doubtful() *pendingEntry[R] {
	for _, f := range p.inFlight {
		if f.future != nil && (p.wary || f.term != p.term) {
			return f
		}
	}
	return nil
}

// completeDoubtful ends when no entry in flight is in doubt. It is not waited for: after a shutdown raft
// leaves futures without an answer, and Close has answered their entries in flight by then.
func (g *Group[R, E]) completeDoubtful() {
	p := &g.proposer
	for {
		p.mu.Lock()
		f := p.doubtful()
		if f == nil {
			p.awaiting = false
		}
		p.mu.Unlock()
		if f == nil {
			return
		}
		err := f.future.Error()
		if p.land(f.term, f.seq) == nil {
			continue
		}
		answer(f.items, g.refusal(err))
		if f.lead {
			p.leadAgain(f.term)
		}
	}
}

// leadAgain makes the proposer propose a Lead command that raft refused once more.
func (p *proposer[R]) leadAgain(term uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term == term {
		p.term = 0
		p.signal()
	}
}

// refusal translates raft's error for an entry that was not applied by this leadership. Raft returns the first two
// for entries that it did not append.
func (g *Group[R, E]) refusal(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return g.notLeader()
	default:
		return ErrUnknownOutcome
	}
}
