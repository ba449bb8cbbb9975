// Package presence is what a host of queues knows about the nodes that are gateways to them: which life each is in, and
// whether it is there (DC-1).
package presence

import (
	"sync"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// Nodes is what this node, as host, knows about the nodes that are gateways to its queues. mu
// guards all fields.
type Nodes struct {
	self  id.NodeID
	epoch id.Epoch

	mu   sync.RWMutex
	seen map[id.NodeID]*peerState
}

// peerState is what is known about a peer; Nodes.mu guards it.
type peerState struct {
	epoch id.Epoch // newest known; from the connection or the catalog
	up    bool     // its queue stream to this node is up, in that epoch
	// silent says that the node does not answer, although the connection is up.
	silent bool
	// ended says that the node's process has ended: nothing listens at its address.
	ended bool
}

// State is what a queue must know about a node (DC-1).
type State struct {
	Epoch id.Epoch // newest known
	Up    bool     // it is connected in that epoch, and answers
	Ended bool     // its process has ended
}

// New returns what a node knows at first: that it is there itself, in its epoch.
func New(self id.NodeID, epoch id.Epoch) *Nodes {
	return &Nodes{self: self, epoch: epoch, seen: map[id.NodeID]*peerState{}}
}

// state returns the peer's state, and creates it if there is none. p.mu is held.
func (p *Nodes) state(n id.NodeID) *peerState {
	s := p.seen[n]
	if s == nil {
		s = &peerState{}
		p.seen[n] = s
	}
	return s
}

// Inbound records that a peer's queue stream came up or went down. It returns true if anything
// changed.
func (p *Nodes) Inbound(from transport.Peer, up bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(from.Node)
	switch {
	case from.Epoch < s.epoch:
		return false
	case from.Epoch > s.epoch:
		*s = peerState{epoch: from.Epoch, up: up, silent: s.silent}
		return true
	}
	before := s.shown()
	if s.up = up; up {
		s.ended = false
	}
	return s.shown() != before
}

// Answers records whether a node answers on its connections. It returns true if anything changed.
func (p *Nodes) Answers(n id.NodeID, does bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(n)
	before := s.shown()
	s.silent = !does
	return s.shown() != before
}

// HasEnded records that nothing listens at a node's address. It returns true if anything changed.
// It does nothing while there is a connection from the node, because that is better evidence that
// the node lives.
func (p *Nodes) HasEnded(n id.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(n)
	before := s.shown()
	s.ended = !s.up
	return s.shown() != before
}

// shown returns what a queue must know of it.
func (s *peerState) shown() State {
	return State{Epoch: s.epoch, Up: s.up && !s.silent, Ended: s.ended}
}

// Heard records an epoch that the catalog or gossip reports. It returns true if the epoch is new.
// Only a connection shows whether the node is there, because gossip can be wrong when machines are
// busy.
func (p *Nodes) Heard(n id.NodeID, epoch id.Epoch) bool {
	if n == p.self {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(n)
	if epoch > s.epoch {
		*s = peerState{epoch: epoch, silent: s.silent}
		return true
	}
	return false
}

// Of returns what is known about a node. If nothing is known, the node counts as never seen.
func (p *Nodes) Of(n id.NodeID) State {
	if n == p.self {
		return State{Epoch: p.epoch, Up: true}
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if s := p.seen[n]; s != nil {
		return s.shown()
	}
	return State{}
}
