package transport

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// peers are the other nodes that this one connects to. mu guards what is below it.
type peers struct {
	l *local

	mu     sync.Mutex
	of     map[id.NodeID]*peer
	gone   map[id.NodeID]<-chan struct{} // ends of peers that were removed
	former Former                        // of peers that were removed
	closed bool
}

// init makes a set without peers.
func (s *peers) init(l *local) {
	s.l, s.of, s.gone = l, map[id.NodeID]*peer{}, map[id.NodeID]<-chan struct{}{}
}

// remove drops this node's own connection to a peer.
func (s *peers) remove(n id.NodeID) {
	s.mu.Lock()
	p := s.of[n]
	if p != nil {
		delete(s.of, n)
		s.gone[n] = p.done
		s.former.Reconnects += max(p.connect.Load(), 1) - 1
		s.former.Failures += p.failure.Load()
	}
	s.mu.Unlock()
	if p != nil {
		p.cancel()
	}
}

// all returns the peers of the moment, in no order.
func (s *peers) all() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.of))
}

// removed returns the counts of peers that were removed.
func (s *peers) removed() Former {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.former
}

// close prevents further peers from beginning.
func (s *peers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// SetPeer sets where a peer may be, the best address first; unchanged ones do nothing. The Mux tries to connect to
// one after the other, until RemovePeer. The own node is not a peer.
func (s *peers) SetPeer(n id.NodeID, addresses ...string) {
	if n == s.l.config.Node {
		return
	}
	if p, err := s.ensure(n, true); err == nil {
		p.setAddresses(addresses)
	}
}

// ensure returns the peer; one without an address waits for SetPeer. It fails with ErrClosed after Close, and with
// ErrUnknownPeer for a peer that was removed, unless it is set again.
func (s *peers) ensure(n id.NodeID, set bool) (*peer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.of[n]; p != nil {
		return p, nil
	}
	gone := s.gone[n]
	switch {
	case s.closed:
		return nil, ErrClosed
	case gone != nil && !set:
		return nil, fmt.Errorf("%w: node %q was removed", ErrUnknownPeer, n)
	}
	p := newPeer(s.l, s.between, n, gone)
	delete(s.gone, n)
	s.of[n] = p
	s.l.running.Go(p.run)
	return p, nil
}

// lookup returns nil for a node that is no peer.
func (s *peers) lookup(n id.NodeID) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[n]
}

// connection returns the connection to a peer if it is up.
func (s *peers) connection(n id.NodeID) (*peerConn, error) {
	p := s.lookup(n)
	if p == nil {
		return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, n)
	}
	return p.connection()
}

// between returns the connections by which a detour to a node may lead.
func (s *peers) between(to id.NodeID) []*peerConn {
	var ways []*peerConn
	for _, p := range s.all() {
		if p.node == to {
			continue
		}
		if pc, err := p.connection(); err == nil && pc.direct() {
			ways = append(ways, pc)
		}
	}
	slices.SortFunc(ways, func(a, b *peerConn) int { return int(a.unanswered() - b.unanswered()) })
	return ways
}

// Send queues a frame on this node's own queue stream to the peer. It never blocks. The
// frame must not be changed afterwards. Errors: ErrUnknownPeer, ErrNotConnected,
// ErrStreamFull, ErrFrameTooLarge.
func (s *peers) Send(n id.NodeID, f *nodev1.Frame) error {
	pc, err := s.connection(n)
	if err != nil {
		return err
	}
	if err := pc.queue.push(f); err != nil {
		return fmt.Errorf("node %q: %w", n, err)
	}
	return nil
}

// Connected reports whether this node is connected to the peer, and its epoch.
func (s *peers) Connected(n id.NodeID) (id.Epoch, bool) {
	pc, err := s.connection(n)
	if err != nil {
		return 0, false
	}
	return pc.remote.Epoch, true
}
