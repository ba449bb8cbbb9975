package replica

import (
	"sync"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// peers is what this node as host knows of the nodes that are gateways to its queues.
// mu guards all.
type peers struct {
	self  id.NodeID
	epoch id.Epoch

	mu   sync.RWMutex
	seen map[id.NodeID]*peerState
}

// peerState is what is known of a peer; peers.mu guards it.
type peerState struct {
	epoch id.Epoch // newest known; from the connection or the catalog
	up    bool     // its queue stream to this node is up, in that epoch
	// silent reports that it does not answer, though the connection is up.
	silent bool
	// ended reports that its process is no more: nothing listens where it was.
	ended bool
}

// presence is what a queue must know of a node (DC-1).
type presence struct {
	epoch id.Epoch
	up    bool
	ended bool
}

func newPeers(self id.NodeID, epoch id.Epoch) *peers {
	return &peers{self: self, epoch: epoch, seen: map[id.NodeID]*peerState{}}
}

// state returns the peer's state, a new one if need be. p.mu is held.
func (p *peers) state(n id.NodeID) *peerState {
	s := p.seen[n]
	if s == nil {
		s = &peerState{}
		p.seen[n] = s
	}
	return s
}

// inbound notes that a peer's queue stream came up or went down; true if anything changed.
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

// answers takes whether a node answers on its connections; true if anything changed.
func (p *peers) answers(n id.NodeID, does bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(n)
	before := s.presence()
	s.silent = !does
	return s.presence() != before
}

// hasEnded notes that nothing listens where a node was; true if that is news. A connection from it is
// the better proof that it lives.
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

// heard takes an epoch that the catalog or gossip reports; true if it is news. Whether the
// node is there is for its connection alone to say: gossip errs when machines are busy.
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

// presence is that of a node that was never heard of if nothing is known of it.
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
