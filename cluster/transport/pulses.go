package transport

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/phase"
	"github.com/quorate/quorate/internal/wait"
)

// pulses are the heartbeats with all peers. overdue is called when one did not arrive in time. mu guards what is
// below it.
type pulses struct {
	l       *local
	overdue func(*pulse)
	news    chan struct{} // of capacity 1: peers are to be notified now
	begun   sync.Once     // since the first connection for heartbeats

	mu sync.Mutex
	of map[id.NodeID]*pulse
}

// init makes pulses without peers.
func (s *pulses) init(l *local, overdue func(*pulse)) {
	s.l, s.overdue, s.news, s.of = l, overdue, make(chan struct{}, 1), map[id.NodeID]*pulse{}
}

// run asks peers from the first call on, until the node's end of the connections is closed.
func (s *pulses) run() { s.begun.Do(func() { s.l.running.Go(s.heartbeat) }) }

// remove forgets a peer.
func (s *pulses) remove(n id.NodeID) {
	s.mu.Lock()
	p := s.of[n]
	delete(s.of, n)
	s.mu.Unlock()
	if p != nil {
		p.drop()
	}
}

// pulse returns the one of a peer.
func (s *pulses) pulse(n id.NodeID) *pulse {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[n]
	if p == nil {
		p = &pulse{l: s.l, node: n, asks: s.l.config.Node < n, runs: s.run}
		p.due = time.AfterFunc(time.Hour, func() { s.overdue(p) })
		p.due.Stop()
		s.of[n] = p
	}
	return p
}

// everyPulse returns a copy, so that no lock is held while heartbeats are sent.
func (s *pulses) everyPulse() []*pulse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.of))
}

// Say sends all peers at once what this node reports about itself, without waiting for the next heartbeat. It does
// not block.
func (s *pulses) Say() {
	wait.Wake(s.news)
}

// heartbeat asks all peers at the same time, again and again, and measures how late that is.
func (s *pulses) heartbeat() {
	began := time.Now()
	wait := phase.Wait(began, s.l.config.HeartbeatEvery)
	next := time.NewTimer(wait)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			now := time.Now()
			s.l.starved.ran(now.Sub(began)-wait, now.Sub(began))
			began, wait = now, phase.Wait(now, s.l.config.HeartbeatEvery)
			next.Reset(wait)
			for _, p := range s.everyPulse() {
				if p.asks {
					p.ask()
				}
			}
		case <-s.news:
			for _, p := range s.everyPulse() {
				p.say()
			}
		case <-s.l.ctx.Done():
			return
		}
	}
}
