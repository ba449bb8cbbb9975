package raftfsm

import (
	"sync"
	"time"

	"github.com/quorate/quorate/clock"
)

// stamps are those of commands while this member leads: the queue's time (TTL-6).
type stamps struct {
	mu    sync.Mutex // guards queue
	queue clock.Queue
}

func stampTime(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// begin lets the time go on from the latest stamp that this member has applied when it is
// elected.
func (s *stamps) begin(latest int64, m clock.Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = clock.Queue{}
	s.queue.Resume(stampTime(latest), m)
}

// resume lets the time continue from the latest stamp of all, if it has not reached that yet.
func (s *stamps) resume(latest int64, m clock.Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.Resume(stampTime(latest), m)
}

// agreementPoll is the wait before a leader that does not know the time looks again.
const agreementPoll = 5 * time.Millisecond

// timeAgreed reports whether the time of the cluster can be relied on. Until then a new leader does
// not begin, and what it is given waits; there will be a step.
func (g *Group[R, E]) timeAgreed() bool {
	if g.c.Clock().Reliable {
		return true
	}
	time.AfterFunc(agreementPoll, g.proposer.signal)
	return false
}

// next returns the next command's stamp, in milliseconds since the Unix epoch.
func (s *stamps) next(m clock.Moment) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Now(m).Milliseconds()
}

// Now returns the stamp that a command would get now, in milliseconds since the Unix epoch. It is
// meaningful only while this member leads.
func (g *Group[R, E]) Now() int64 {
	m := g.c.Clock()
	g.stamps.mu.Lock()
	defer g.stamps.mu.Unlock()
	return g.stamps.queue.Peek(m).Milliseconds()
}

// Ahead returns how far the time of the group's commands is ahead of the cluster's time while this
// member leads.
func (g *Group[R, E]) Ahead() time.Duration {
	m := g.c.Clock()
	g.stamps.mu.Lock()
	defer g.stamps.mu.Unlock()
	return g.stamps.queue.Ahead(m)
}
