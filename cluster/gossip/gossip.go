// Package gossip finds the nodes of the cluster by gossip (memberlist) and reports who
// seems reachable. What it says are hints: Raft configurations and placement never follow
// from gossip alone.
//
// A node is known by its id and its epoch. A newer epoch always wins, at whatever address it appears; news about an
// older one are dropped.
package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/id"
)

// Members is this node's view. All methods may be called concurrently.
type Members struct {
	config Config
	log    *slog.Logger
	list   *memberlist.Memberlist
	ctx    context.Context
	cancel context.CancelFunc
	events chan Event
	loops  sync.WaitGroup
	left   sync.Once
	leftBy error // what Leave returns; set once

	mu         sync.Mutex // guards what follows
	nodes      map[id.NodeID]*known
	unreported []id.NodeID   //  nodes with unreported changes, oldest first, each once
	wake       chan struct{} // of capacity 1: there are changes to report
	alive      chan struct{} // of capacity 1: who is alive has changed
}

// known is what is known of a node.
type known struct {
	Node
	// claimed is when a newer epoch showed up at another address than gossip had for
	// the node; zero once gossip agrees. Until then gossip probes the old address.
	claimed time.Time
	lost    time.Time // when it was last seen to go; zero while alive
	twice   bool      // it was logged that two processes use the id and epoch
}

const (

	// suspicion is how long a node is suspected before it counts as dead, if probes are rare; otherwise it is a few
	// probe intervals.
	suspicion = 4 * time.Second
	// streamTimeout bounds a connection for gossip.
	streamTimeout = 3 * time.Second
)

// GossipAddr returns host:port at which others reach this node's gossip.
func (m *Members) GossipAddr() string { return m.list.LocalNode().Address() }

// Nodes returns all known nodes, this one included, ordered by id. Those that went stay
// known, not alive.
func (m *Members) Nodes() []Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := make([]Node, 0, len(m.nodes))
	for _, k := range m.nodes {
		nodes = append(nodes, k.Node)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return nodes
}

// Events returns the channel of changes of other nodes: the newest state per node, none
// lost. It is closed by Leave.
func (m *Members) Events() <-chan Event { return m.events }

// Leave notifies the others that this node leaves on purpose, then stops. The first call counts, others return the
// same.
func (m *Members) Leave(ctx context.Context) error {
	m.left.Do(func() { m.leftBy = m.stop(ctx, true) })
	return m.leftBy
}

// stop ends all goroutines. With notify the other nodes learn that the node leaves, and do not take it for failed.
func (m *Members) stop(ctx context.Context, notify bool) error {
	m.cancel()
	var err error
	if notify {
		wait := 5 * time.Second
		if end, ok := ctx.Deadline(); ok {
			wait = max(time.Until(end), time.Millisecond)
		}
		if err = m.list.Leave(wait); err != nil {
			err = fmt.Errorf("gossip: the others may take node %q for failed: %w", m.config.Node.ID, err)
		}
	}
	if e := m.list.Shutdown(); e != nil && err == nil {
		err = fmt.Errorf("gossip: %w", e)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.loops.Wait()
		close(m.events)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("gossip: joining did not end in time: %w", ctx.Err())
	}
}
