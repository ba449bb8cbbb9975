package raftfsm

import "github.com/hashicorp/raft"

// maxInlineBytes bounds the commands whose entry is made by who brings the first of them: it may be
// the reader of a stream, for which commands of other queues wait.
const maxInlineBytes = 64 << 10

// steps notices leadership and turns commands into entries, until nothing more is asked for.
func (g *Group[R, E]) steps() {
	p := &g.proposer
	for {
		asked := p.asked.Load()
		if p.news.Swap(false) {
			g.watch.announce()
		}
		if g.isStopping() {
			return // halt refuses what waits
		}
		g.step(g.raft.Load(), &p.commands)
		if p.asked.CompareAndSwap(asked, 0) {
			return
		}
	}
}

// stepInline runs a step on the goroutine that brings a command, if none is running: it makes the
// entry, so that no other goroutine has to wake up for it. A change of leadership is not its
// business, and it runs one step only.
func (g *Group[R, E]) stepInline() {
	p := &g.proposer
	if p.asked.Add(1) > 1 {
		return
	}
	r := g.raft.Load()
	p.mu.Lock()
	leads := p.term != 0 && p.term == leaderTerm(r)
	p.mu.Unlock()
	if leads && !p.news.Load() && !g.isStopping() {
		g.propose(r, &p.commands)
		if p.asked.CompareAndSwap(1, 0) {
			return
		}
	}
	p.begin()
}

// step looks at the leadership first, so that the Lead command is the first of its term.
func (g *Group[R, E]) step(r *raft.Raft, commands *[]Command) {
	p := &g.proposer
	term := leaderTerm(r)
	p.mu.Lock()
	changed := p.term != term
	p.mu.Unlock()
	if changed {
		g.cease(term)
		if term != 0 && !g.timeAgreed() {
			return // p.term stays: the next step finds it changed, too
		}
		p.mu.Lock()
		p.term, p.wary = term, false
		p.mu.Unlock()
		g.awaitDoubtful()
		g.watch.announce()
		if term != 0 {
			g.proposeLead(r, term, commands)
		}
	}
	if term == 0 {
		g.refuseQueue(g.notLeader())
		return
	}
	g.propose(r, commands)
}

// propose makes entries of the waiting commands, as many as may be on their way.
func (g *Group[R, E]) propose(r *raft.Raft, commands *[]Command) {
	p := &g.proposer
	for f := p.next(); f != nil; f = p.next() {
		g.hand(r, f, commands)
	}
}

// quiet reports whether no entry is on its way and so little waits that making one takes whoever
// brought it no time. It is called with the lock held.
func (p *proposer[R]) quiet() bool { return len(p.inFlight) == 0 && p.queued <= maxInlineBytes }
