package replica

import (
	"sync"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// peers is what this node, as host, knows about the nodes that are gateways to its queues. mu
// guards all fields.
type peers struct {
	self  id.NodeID
	epoch id.Epoch

	mu   sync.RWMutex
	seen map[id.NodeID]*peerState
}

// peerState is what is known about a peer; peers.mu guards it.
type peerState struct {
	epoch id.Epoch // newest known; from the connection or the catalog
	up    bool     // its queue stream to this node is up, in that epoch
	// silent says that the node does not answer, although the connection is up.
	silent bool
	// ended says that the node's process has ended: nothing listens at its address.
	ended bool
}

// presence is what a queue must know about a node (DC-1).
type presence struct {
	epoch id.Epoch
	up    bool
	ended bool
}

func newPeers(self id.NodeID, epoch id.Epoch) *peers {
	return &peers{self: self, epoch: epoch, seen: map[id.NodeID]*peerState{}}
}

// state returns the peer's state, and creates it if there is none. p.mu is held.
func (p *peers) state(n id.NodeID) *peerState {
	s := p.seen[n]
	if s == nil {
		s = &peerState{}
		p.seen[n] = s
	}
	return s
}

// inbound records that a peer's queue stream came up or went down. It returns true if anything
// changed.
func (p *peers) inbound(from transport.Peer, up bool) bool {
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
	before := s.presence()
	if s.up = up; up {
		s.ended = false
	}
	return s.presence() != before
}

// answers records whether a node answers on its connections. It returns true if anything changed.
func (p *peers) answers(n id.NodeID, does bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(n)
	before := s.presence()
	s.silent = !does
	return s.presence() != before
}

// hasEnded records that nothing listens at a node's address. It returns true if anything changed.
// It does nothing while there is a connection from the node, because that is better evidence that
// the node lives.
func (p *peers) hasEnded(n id.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(n)
	before := s.presence()
	s.ended = !s.up
	return s.presence() != before
}

func (s *peerState) presence() presence {
	return presence{epoch: s.epoch, up: s.up && !s.silent, ended: s.ended}
}

// heard records an epoch that the catalog or gossip reports. It returns true if the epoch is new.
// Only a connection shows whether the node is there, because gossip can be wrong when machines are
// busy.
func (p *peers) heard(n id.NodeID, epoch id.Epoch) bool {
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

// presence returns what is known about a node. If nothing is known, the node counts as never seen.
func (p *peers) presence(n id.NodeID) presence {
	if n == p.self {
		return presence{epoch: p.epoch, up: true}
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if s := p.seen[n]; s != nil {
		return s.presence()
	}
	return presence{}
}
