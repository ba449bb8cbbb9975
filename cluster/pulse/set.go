package pulse

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/phase"
	"github.com/quorate/quorate/internal/wait"
)

// Set has the heartbeats with all peers. All methods may be called concurrently.
type Set struct {
	*shared
	overdue func(*Pulse)
	news    chan struct{}  // of capacity 1: peers are to be notified now
	begun   sync.Once      // since the first connection for heartbeats
	running sync.WaitGroup // the goroutine that asks

	mu sync.Mutex // guards of
	of map[id.NodeID]*Pulse
}

// New returns a Set without peers. It calls overdue when a heartbeat of a peer has not come in time.
func New(c Config, overdue func(*Pulse)) *Set {
	s := &Set{shared: &shared{config: c}, overdue: overdue, news: make(chan struct{}, 1), of: map[id.NodeID]*Pulse{}}
	s.run = func() { s.begun.Do(func() { s.running.Go(s.heartbeat) }) } // until Config.Life ends
	return s
}

// Wait returns when no goroutine of the Set runs any more. Config.Life and all calls of Serve must have ended.
func (s *Set) Wait() { s.running.Wait() }

// Starved returns for which share of the recent time this node lacked a processor, in thousandths.
func (s *Set) Starved() uint32 { return s.starved.share.Load() }

// Leniency returns how much longer than usual operations on this node may take because it lacks processors.
func (s *Set) Leniency() time.Duration { return leniency(s.Starved(), s.config.Timeout) }

// Stuck returns how many connections were given up because they stood still.
func (s *Set) Stuck() uint64 { return s.stuck.Load() }

// TakeOver sets whether members here take leadership that a peer hands over, which they do at first. Peers are notified.
func (s *Set) TakeOver(may bool) {
	s.drains.Store(!may)
	s.Say()
}

// Drains reports that members here take no leadership that a peer hands over.
func (s *Set) Drains() bool { return s.drains.Load() }

// Recheck ends the connections of peers that this node refuses now.
func (s *Set) Recheck() {
	for _, p := range s.every() {
		p.recheck()
	}
}

// Remove forgets a peer.
func (s *Set) Remove(n id.NodeID) {
	s.mu.Lock()
	p := s.of[n]
	delete(s.of, n)
	s.mu.Unlock()
	if p != nil {
		p.drop()
	}
}

// Of returns the Pulse of a peer.
func (s *Set) Of(n id.NodeID) *Pulse {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[n]
	if p == nil {
		p = &Pulse{shared: s.shared, Node: n, asks: s.config.Node < n}
		p.due = time.AfterFunc(time.Hour, func() { s.overdue(p) })
		p.due.Stop()
		s.of[n] = p
	}
	return p
}

// every returns a copy, so that no lock is held while heartbeats are sent.
func (s *Set) every() []*Pulse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.of))
}

// Say sends all peers at once what this node reports about itself, without waiting for the next heartbeat. It does
// not block.
func (s *Set) Say() {
	wait.Wake(s.news)
}

// heartbeat asks all peers at the same time, again and again, and measures how late that is.
func (s *Set) heartbeat() {
	began := time.Now()
	wait := phase.Wait(began, s.config.Every)
	next := time.NewTimer(wait)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			now := time.Now()
			s.starved.ran(now.Sub(began)-wait, now.Sub(began))
			began, wait = now, phase.Wait(now, s.config.Every)
			next.Reset(wait)
			for _, p := range s.every() {
				if p.asks {
					p.ask()
				}
			}
		case <-s.news:
			for _, p := range s.every() {
				p.say()
			}
		case <-s.config.Life.Done():
			return
		}
	}
}
