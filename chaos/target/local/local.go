// Package local drives nodes that are processes of this machine on loopback: they can be
// ended, paused and started, their files changed, and another build run.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
)

// Cluster drives the processes of a chaos.Cluster. All methods may be called concurrently, for
// different nodes.
type Cluster struct {
	*chaos.Cluster
	// Binary is the current build; OtherBinary, if set, the other one.
	Binary, OtherBinary string

	relay     *relay // between nodes; nil: they reach each other directly
	tamperers tamperers

	mu      sync.Mutex
	changed map[*chaos.Node]bool // spare nodes that were added, and others that were removed
}

// Spares is how many nodes can be added to those that Make and Open were asked for.
const Spares = 1

var _ interface {
	target.Cluster
	target.Unsupervised
	target.Pausing
	target.Files
	target.Stores
	target.Recovery
	target.Scaling
	target.Builds
	target.Network
	target.Shaping
	target.Descriptors
	target.Calls
	target.Partial
} = (*Cluster)(nil)

// Open makes a cluster whose links can be cut where this machine allows that, and starts no process
// yet: Cluster.Start does.
func Open(c chaos.ClusterConfig, otherBinary string) (*Cluster, error) {
	c.Apart = noRelay() == nil
	out, err := Make(c, otherBinary)
	if err == nil && c.Apart {
		out.relay, err = newRelay(out.All())
	}
	return out, err
}

// Make makes a cluster whose nodes reach each other directly, and starts no process yet. Spares nodes can be added to it.
func Make(c chaos.ClusterConfig, otherBinary string) (*Cluster, error) {
	out := &Cluster{Binary: c.Binary, OtherBinary: otherBinary}
	c.Spare = Spares
	if noTampering() == nil {
		c.OnThread = out.tamperers.attach
	}
	var err error
	if out.Cluster, err = chaos.NewCluster(c); err != nil {
		return nil, err
	}
	for _, n := range out.All() {
		dir, err := filepath.Abs(n.DataDir())
		if err != nil {
			return nil, fmt.Errorf("local: %w", err)
		}
		out.tamperers.enlist(n.ID, filepath.Join(dir, "wal"))
	}
	return out, nil
}

// Lacks implements target.Partial.
func (c *Cluster) Lacks(ability any) error {
	switch ability.(type) {
	case *target.Network, *target.Shaping:
		if c.relay == nil {
			return cmp.Or(noRelay(), errors.New("local: nodes reach each other directly"))
		}
	case *target.Scaling:
		if len(c.Spare) == 0 {
			return errors.New("local: there is no place for another node")
		}
		if len(c.Cluster.Nodes) == 1 {
			return errors.New("local: the only node of a cluster would come back as one of its own")
		}
	case *target.Recovery:
		if n := len(c.Cluster.Nodes); n != target.RecoveredOf {
			return fmt.Errorf("local: a node of %d is not recovered without loss: only one of %d is", n, target.RecoveredOf)
		}
	case *target.Descriptors:
		return noDescriptors()
	case *target.Calls:
		return noTampering()
	}
	if _, builds := ability.(*target.Builds); builds && c.OtherBinary == "" {
		return errors.New("local: there is no other build: name its program")
	}
	return nil
}

// Nodes implements target.Cluster.
func (c *Cluster) Nodes() []target.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []target.Node
	for _, n := range c.All() {
		if !c.has(n) {
			continue
		}
		out = append(out, target.Node{ID: n.ID, Client: n.Client, AMQP: n.AMQP, HTTP: n.HTTP})
	}
	return out
}

// has reports whether the cluster is to have the node. The caller holds mu.
func (c *Cluster) has(n *chaos.Node) bool { return slices.Contains(c.Cluster.Nodes, n) != c.changed[n] }

// toggle records that a node was added or removed. The caller holds mu.
func (c *Cluster) toggle(n *chaos.Node) {
	if c.changed == nil {
		c.changed = map[*chaos.Node]bool{}
	}
	c.changed[n] = !c.changed[n]
}

// Dial implements target.Cluster.
func (c *Cluster) Dial(nodes ...string) client.Config {
	cfg := client.Config{FixedAddresses: len(nodes) > 0}
	for _, n := range c.Nodes() {
		if len(nodes) == 0 {
			cfg.Addresses = append(cfg.Addresses, n.Client)
		}
	}
	for _, id := range nodes {
		if n := c.Node(id); n != nil {
			cfg.Addresses = append(cfg.Addresses, n.Client)
		}
	}
	return cfg
}

// Login implements target.Cluster: nodes are run without logins.
func (*Cluster) Login() (user, password string) { return "guest", "guest" }

// WaitReady implements target.Cluster.
func (c *Cluster) WaitReady(ctx context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

// Log implements target.Cluster: all that the node's processes wrote; lines carry their times.
func (c *Cluster) Log(_ context.Context, node string, _ time.Time) ([]byte, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(n.LogFile())
}

// Close implements target.Cluster.
func (c *Cluster) Close(ctx context.Context) error {
	err := c.Cluster.Stop(ctx)
	if c.relay != nil {
		err = errors.Join(err, c.relay.close())
	}
	return err
}

// Cut implements target.Network.
func (c *Cluster) Cut(_ context.Context, from, to string) error {
	c.relay.cut(from, to, 1)
	return nil
}

// Join implements target.Network.
func (c *Cluster) Join(_ context.Context, from, to string) error {
	c.relay.cut(from, to, -1)
	return nil
}

// Shape implements target.Shaping. Packets of gossip overtake each other by their jitter.
func (c *Cluster) Shape(_ context.Context, from, to string, s target.Shape) error {
	c.relay.shape(from, to, s)
	return nil
}

// Touched implements target.Network: it counts bytes of connections and packets of gossip.
func (c *Cluster) Touched(context.Context) (uint64, error) { return c.relay.touched.Load(), nil }

// Kill implements target.Processes.
func (c *Cluster) Kill(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Kill()
}

// Stop implements target.Processes.
func (c *Cluster) Stop(ctx context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Stop(ctx)
}

// Unsupervised implements target.Unsupervised.
func (*Cluster) Unsupervised() {}

// Start implements target.Processes.
func (c *Cluster) Start(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Start()
}

// Running implements target.Processes.
func (c *Cluster) Running(node string) bool {
	n := c.Node(node)
	if n == nil {
		return false
	}
	_, running := n.Running()
	return running
}

// Pause implements target.Pausing.
func (c *Cluster) Pause(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Pause()
}

// Resume implements target.Pausing.
func (c *Cluster) Resume(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Resume()
}

// Dir implements target.Files.
func (c *Cluster) Dir(node string) string {
	if n := c.Node(node); n != nil {
		return n.DataDir()
	}
	return ""
}

// Lose implements target.Stores.
func (c *Cluster) Lose(_ context.Context, node string) error {
	n, err := c.node(node)
	if err == nil {
		err = n.Kill()
	}
	if err != nil {
		return err
	}
	return empty(n)
}

// Recover implements target.Recovery.
func (c *Cluster) Recover(ctx context.Context, node string, lost []string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Recover(ctx, lost)
}

// Add implements target.Scaling: the node is the first that the cluster does not have.
func (c *Cluster) Add(context.Context) (node string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.All() {
		if c.has(n) {
			continue
		}
		if err := n.Start(); err != nil {
			return "", err
		}
		c.toggle(n)
		return n.ID, nil
	}
	return "", fmt.Errorf("local: the cluster has all %d nodes that there are", len(c.All()))
}

// Remove implements target.Scaling. A node that has ended by itself is removed too.
func (c *Cluster) Remove(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.has(n) {
		c.toggle(n) // before it ends, so that nobody starts it again
	}
	c.mu.Unlock()
	if err := n.Kill(); c.Running(node) {
		return errors.Join(fmt.Errorf("local: node %s still runs", node), err)
	}
	return empty(n)
}

// OnlyNewest implements target.Scaling: any node can be removed.
func (*Cluster) OnlyNewest() bool { return false }

// empty deletes all that a node has stored, but its directory, which may be a mount point.
func empty(n *chaos.Node) error {
	entries, err := os.ReadDir(n.DataDir())
	if err != nil {
		return fmt.Errorf("local: empty node %s: %w", n.ID, err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(n.DataDir() + string(os.PathSeparator) + e.Name()); err != nil {
			return fmt.Errorf("local: empty node %s: %w", n.ID, err)
		}
	}
	return nil
}

// Use implements target.Builds.
func (c *Cluster) Use(_ context.Context, node, build string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	binary := c.Binary
	if build == target.Other {
		binary = c.OtherBinary
	}
	if binary == "" {
		return fmt.Errorf("local: there is no %s build: name its program", build)
	}
	n.Use(binary)
	return nil
}

func (c *Cluster) node(id string) (*chaos.Node, error) {
	n := c.Node(id)
	if n == nil {
		return nil, fmt.Errorf("local: there is no node %q", id)
	}
	return n, nil
}
