// Package gossip finds the nodes of the cluster by gossip (memberlist) and reports who
// seems reachable. What it says are hints: Raft configurations and placement never follow
// from gossip alone.
//
// A node is known by its id and its epoch. A newer epoch always wins, at whatever address
// it shows up; news of an older one are dropped.
package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/id"
)

// Node is a member of the cluster as gossip shows it.
type Node struct {
	ID         id.NodeID
	Epoch      id.Epoch
	PeerAddr   string // host:port of the node-to-node API
	ClientAddr string // host:port of the clients' API
	GossipAddr string // IP:port at which its gossip was seen last; "" of this node itself
	Version    string
	Store      id.StoreID // "": a build that knows no stores
	Alive      bool
}

// Event reports that a node joined, changed or left.
type Event struct {
	Node Node
}

// Members is this node's view. All methods may be called concurrently.
type Members struct {
	config Config
	log    *slog.Logger
	list   *memberlist.Memberlist
	joiner joiner
	ctx    context.Context
	cancel context.CancelFunc
	events chan Event
	loops  sync.WaitGroup
	left   sync.Once
	leftBy error // what Leave returns; set once

	mu    sync.Mutex // guards what follows
	nodes map[id.NodeID]*known
	told  []id.NodeID   // nodes with news, oldest first, each once
	wake  chan struct{} // of capacity 1: there are news
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

// Start begins to gossip and to join; it returns when this node listens.
func Start(c Config) (*Members, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	c.Node.Alive = true
	m := &Members{
		config: c, log: c.Logger,
		events: make(chan Event), wake: make(chan struct{}, 1),
		nodes: map[id.NodeID]*known{c.Node.ID: {Node: c.Node}},
	}
	m.joiner = joiner{m: m, news: make(chan struct{}, 1), logged: map[string]bool{}}
	conf, err := m.listConfig()
	if err != nil {
		return nil, err
	}
	ports, err := listenGated(conf, c.Gate, conf.Logger)
	if err == nil {
		if m.list, err = memberlist.Create(conf); err != nil {
			err = errors.Join(err, ports.Shutdown())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("gossip: listening for gossip at %s: %w: choose a free address, "+
			"and set the advertised one if others reach this node by another", c.BindAddr, err)
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.loops.Go(m.handOut)
	m.loops.Go(m.joiner.run)
	return m, nil
}

const (
	// gossipEvery is the time between two rounds of news, on which the start of a cluster waits
	// some times over.
	gossipEvery = 200 * time.Millisecond
	// suspicion is how long a node is suspected before it is held for dead, if probes are rare;
	// else it is some of them.
	suspicion = 4 * time.Second
	// streamTimeout bounds a connection for gossip.
	streamTimeout = 3 * time.Second
)

// listConfig turns the Config into memberlist's. LAN defaults but for: probes are
// less frequent, because connections show sooner which nodes are there, and a cluster at rest is
// to be so; a dead node's name can be taken over at another address at once, because
// epochs, not addresses, tell incarnations apart.
func (m *Members) listConfig() (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	var err error
	if c.BindAddr, c.BindPort, err = resolveOne(m.config.BindAddr); err != nil {
		return nil, fmt.Errorf("gossip: address for gossip %q: %w", m.config.BindAddr, err)
	}
	c.AdvertisePort = c.BindPort
	if m.config.Advertise != "" {
		ip, port, found, err := advertised(m.config.Advertise, c.BindAddr, m.config.AdvertiseWait, lookupIP, ownAddresses(c.BindAddr), m.waits())
		if err != nil {
			return nil, fmt.Errorf("gossip: advertised address %q: %w", m.config.Advertise, err)
		}
		if ip != "" {
			c.AdvertiseAddr, c.AdvertisePort = ip, port
		}
		if !found {
			m.log.Warn("the advertised name does not resolve to an address of this machine: if others do not find this node, advertise an IP",
				"advertise", m.config.Advertise, "waited", m.config.AdvertiseWait, "used", cmp.Or(ip, "a private address of this machine"))
		}
	}
	c.Name = string(m.config.Node.ID)
	c.Label = m.config.Cluster
	c.SecretKey = m.config.Key
	c.ProbeInterval = m.config.ProbeEvery
	c.ProbeTimeout = m.config.ProbeEvery * 3 / 5
	c.GossipInterval = min(gossipEvery, m.config.ProbeEvery)
	c.SuspicionMult = min(c.SuspicionMult, max(2, int(suspicion/m.config.ProbeEvery)))
	c.TCPTimeout = streamTimeout
	c.DeadNodeReclaimTime = time.Nanosecond
	c.Logger = log.New(newLogWriter(m.log, m.config.Cluster), "", 0)
	d := delegate{m: m, meta: encodeMeta(m.config.Node)}
	c.Delegate, c.Events, c.Conflict, c.Alive = d, d, d, d
	return c, nil
}

// waitTold is the time between two lines in the log about the wait for the advertised name.
const waitTold = 3 * time.Second

// waits returns what tells, at once and from then on now and then, that this node waits for
// its advertised name.
func (m *Members) waits() func([]net.IP, error) {
	var began, told time.Time
	return func(found []net.IP, err error) {
		now := time.Now()
		if began.IsZero() {
			began = now
			if m.config.Waits != nil {
				m.config.Waits()
			}
		}
		if now.Sub(told) < waitTold {
			return
		}
		told = now
		m.log.Info("waiting for the advertised name to resolve to an address of this machine: an IP address needs no wait",
			"advertise", m.config.Advertise, "resolves_to", found, "error", err,
			"waited", now.Sub(began).Round(time.Millisecond), "at_most", m.config.AdvertiseWait)
	}
}

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

// Alive returns those of the nodes that are held for alive, in their order.
func Alive(nodes []Node) []id.NodeID {
	var ids []id.NodeID
	for _, n := range nodes {
		if n.Alive {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// Events returns the channel of changes of other nodes: the newest state per node, none
// lost. It is closed by Leave.
func (m *Members) Events() <-chan Event { return m.events }

// Leave notifies the others that this node goes on purpose, then stops. The first call
// counts, others return the same.
func (m *Members) Leave(ctx context.Context) error {
	m.left.Do(func() { m.leftBy = m.stop(ctx, true) })
	return m.leftBy
}

// stop ends all goroutines. With tell the others learn that the node leaves, and do not take it for failed.
func (m *Members) stop(ctx context.Context, tell bool) error {
	m.cancel()
	var err error
	if tell {
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
