package metadata

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// propagationTimeout is the default of Config.PropagationTimeout.
const propagationTimeout = 250 * time.Millisecond

// propagation tracks which changes of the catalog peers have seen. However many changes wait for a peer, only one
// question is on its way at a time, for the newest of them.
type propagation struct {
	transport Transport
	view      func() *catalog.View
	timeout   time.Duration // of await
	log       *slog.Logger

	mu    sync.Mutex // guards what follows
	peers map[id.NodeID]*sight
}

// Transport connects to other nodes.
type Transport interface {
	// Connected reports whether there is a connection to a node.
	Connected(id.NodeID) (id.Epoch, bool)
	// Client returns the calls of a node.
	Client(id.NodeID) (nodev1.NodeClient, error)
}

// newPropagation returns one that knows of no peer yet. Its methods may be called concurrently.
func newPropagation(cfg *Config) *propagation {
	timeout := cfg.PropagationTimeout
	if timeout == 0 {
		timeout = propagationTimeout
	}
	return &propagation{transport: cfg.Mux, view: cfg.Views.View, timeout: timeout, log: cfg.Logger, peers: map[id.NodeID]*sight{}}
}

// sight is how much of the catalog one peer has seen.
type sight struct {
	seen, wanted uint64        // indexes of the catalog
	asking       bool          // somebody asks; all others wait for changed
	changed      chan struct{} // closed when the question is over
}

// awaitPeer returns when the peer sees the catalog up to an index. ask asks it, and is called by
// one at a time; if it fails for one caller, it fails only for that one.
func (s *propagation) awaitPeer(ctx context.Context, n id.NodeID, index uint64, ask func(index uint64) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[n]
	if p == nil {
		p = &sight{changed: make(chan struct{})}
		s.peers[n] = p
	}
	p.wanted = max(p.wanted, index)
	for p.asking && p.seen < index {
		changed := p.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if p.seen >= index {
		return nil
	}
	p.asking = true
	asked := p.wanted
	s.mu.Unlock()
	err := ask(asked)
	s.mu.Lock()
	if err == nil {
		p.seen = max(p.seen, asked)
	}
	p.asking = false
	close(p.changed)
	p.changed = make(chan struct{})
	return err
}

// await waits until the nodes that this one has connections to see the catalog up to an index
// too, so that whoever is notified of a change finds it on any of them (EX-15). A node that
// does not answer in time follows later.
func (s *propagation) await(ctx context.Context, index uint64) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var asked sync.WaitGroup
	for n := range s.view().Nodes() {
		if _, up := s.transport.Connected(n.ID); !up {
			continue
		}
		peer, err := s.transport.Client(n.ID)
		if err != nil {
			continue
		}
		asked.Go(func() {
			err := s.awaitPeer(ctx, n.ID, index, func(index uint64) error {
				_, err := peer.AwaitCatalog(ctx, &nodev1.AwaitCatalogRequest{Index: index})
				return err
			})
			if err != nil {
				s.log.Debug("node does not see the catalog's change yet", "peer", string(n.ID), "index", index, "error", err)
			}
		})
	}
	asked.Wait()
}
