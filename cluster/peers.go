package cluster

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

type peerState struct {
	epoch id.Epoch // newest known; from the link or the catalog
	up    bool     // its queue link to this node is up, in that epoch
}

// presence is what a queue must know of a node (DC-1).
type presence struct {
	epoch id.Epoch
	up    bool
}

func newPeers(self id.NodeID, epoch id.Epoch) *peers {
	return &peers{self: self, epoch: epoch, seen: map[id.NodeID]*peerState{}}
}

func (p *peers) state(n id.NodeID) *peerState {
	s := p.seen[n]
	if s == nil {
		s = &peerState{}
		p.seen[n] = s
	}
	return s
}

// inbound takes that a peer's link came up or went down; true if anything changed.
func (p *peers) inbound(from transport.Peer, up bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(from.Node)
	switch {
	case from.Epoch < s.epoch:
		return false
	case from.Epoch > s.epoch:
		*s = peerState{epoch: from.Epoch, up: up}
		return true
	}
	changed := s.up != up
	s.up = up
	return changed
}

// heard takes an epoch that the catalog or gossip tells; true if it is news. Whether the
// node is there is for its link alone to say: gossip errs when machines are busy.
func (p *peers) heard(n id.NodeID, epoch id.Epoch) bool {
	if n == p.self {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state(n)
	if epoch > s.epoch {
		*s = peerState{epoch: epoch}
		return true
	}
	return false
}

func (p *peers) presence(n id.NodeID) presence {
	if n == p.self {
		return presence{epoch: p.epoch, up: true}
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if s := p.seen[n]; s != nil {
		return presence{epoch: s.epoch, up: s.up}
	}
	return presence{}
}
