package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

// Status returns the state of the cluster.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	if err := ctx.Err(); err != nil {
		return Status{}, err
	}
	v := c.View()
	s := Status{
		Name: c.cfg.Name, Node: c.cfg.Node, Epoch: c.epoch,
		CatalogLeader: c.catalog.Leader(), CatalogIndex: v.Index(), Finalised: v.Version(),
	}
	at, now := map[id.NodeID]int{}, time.Now()
	clocks := c.clock.Figures()
	add := func(n gossip.Node) {
		_, connected := c.mux.Connected(n.ID)
		at[n.ID] = len(s.Nodes)
		connected = connected || n.ID == c.cfg.Node
		if c.cfg.TLS != nil && !connected {
			n.Alive = false // whoever can gossip can name a node; its certificate says more
		}
		status := NodeStatus{Node: n, Connected: connected, Disk: c.disks.Of(n.ID), Clock: clocks.Of(n.ID)}
		if k, knocks := c.judge.Of(n.ID, now); knocks && !status.Connected {
			status.Refused = k.Why
		}
		s.Nodes = append(s.Nodes, status)
	}
	for _, n := range c.gossip() {
		if _, registered := v.Node(n.ID); registered || n.Alive || n.ID == c.cfg.Node {
			add(n) // gossip remembers those for a while that were taken out
		}
	}
	for n := range v.Nodes() {
		if _, known := at[n.ID]; !known {
			add(gossip.Node{ID: n.ID, Epoch: n.Epoch, PeerAddr: n.Address, ClientAddr: n.ClientAddress})
		}
	}
	for n, l := range c.host.Loads(v) {
		if i, known := at[n]; known {
			s.Nodes[i].Replicas, s.Nodes[i].Leaders = l.Replicas, l.Leaders
		}
	}
	return s, nil
}

// Room returns nil, or disk.ErrNoSpace with what is short if a queue takes no messages because it lacks space.
func (c *Cluster) Room(uid id.QueueUID) error { return c.rooms.Of(uid) }

// Warning returns what an operator should check although the node serves; "": nothing.
func (c *Cluster) Warning() string {
	if w := c.disks.Warning(); w != "" {
		return w
	}
	if n := len(c.host.LostMembers()); n > 0 {
		return fmt.Sprintf("%d members on this node have lost what they had stored and wait to be rebuilt", n)
	}
	return c.clock.Warning()
}

// Name returns the cluster's name and this node's version.
func (c *Cluster) Name() (name, version string) { return c.cfg.Name, c.cfg.Version }

// Status is what an operator sees of the cluster from this node.
type Status struct {
	Name          string
	Node          id.NodeID
	Epoch         id.Epoch
	CatalogLeader id.NodeID
	CatalogIndex  uint64
	Finalised     catalog.Version
	Nodes         []NodeStatus
}

// NodeStatus is one node as this one sees it.
type NodeStatus struct {
	gossip.Node
	Connected bool
	Refused   string            // why this node refuses it now; "": it does not
	Replicas  int               // queue group members by the catalog
	Leaders   int               // of them led, as far as this node knows
	Disk      *disk.State       // as the node has reported it; nil: it has not
	Clock     *nodeclock.Status // as this node has measured it; nil: it has not, or not lately
}

// Ready returns nil when the catalog has a leader, this node's view is caught up, the
// node's groups are open, and the others' links have reached it since its start; otherwise what is missing.
func (c *Cluster) Ready() error {
	switch {
	case c.ctx.Err() != nil:
		return traffic.ErrClosed
	case c.unloader.Draining():
		if err := c.catalog.Refusal(); err != nil {
			return err // it was taken out
		}
		return errors.New("cluster: node is draining")
	}
	if err := c.catalog.Ready(); err != nil {
		return err
	}
	if err := c.disks.Ready(); err != nil {
		return err
	}
	if err := c.host.Ready(c.catalog.Registered()); err != nil {
		return err
	}
	return c.links.wait(time.Now())
}

// unlinked returns the registered nodes that gossip holds for alive and with which links are not up both ways. Those that
// this node refuses are not waited for.
func (c *Cluster) unlinked() (missing []id.NodeID) {
	v, now := c.View(), time.Now()
	for _, g := range c.gossip() {
		if _, registered := v.Node(g.ID); !registered || !g.Alive || g.ID == c.cfg.Node {
			continue
		}
		if _, knocks := c.judge.Of(g.ID, now); knocks {
			continue
		}
		if _, up := c.mux.Connected(g.ID); !up || !c.mux.CalledBy(g.ID) {
			missing = append(missing, g.ID)
		}
	}
	return missing
}

// Reach reports how many of the cluster's nodes this one reaches, by the connections to them. A node
// that knows of no cluster yet is not cut off from it.
func (c *Cluster) Reach() Reach {
	var r Reach
	lost := c.liveness.Lost(nil, counted(c.nodeIDs(), &r.Nodes))
	r.Reached = r.Nodes - len(lost)
	spare := r.Nodes - (r.Nodes/2 + 1) // so many may be lost
	if r.Nodes == 0 || len(lost) <= spare {
		return r
	}
	slices.SortFunc(lost, time.Time.Compare)
	since := lost[spare]
	if since.Before(c.reach.began) {
		since = c.reach.began
	}
	r.CutOff = max(1, time.Since(since))
	return r
}

// ReachChanged returns a channel that is closed when a node is lost or found the next time.
func (c *Cluster) ReachChanged() <-chan struct{} { return c.reach.next() }

// counted goes over all and counts them.
func counted[T any](all iter.Seq[T], n *int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for x := range all {
			*n++
			if !yield(x) {
				return
			}
		}
	}
}

// nodeIDs goes over the cluster's nodes.
func (c *Cluster) nodeIDs() iter.Seq[id.NodeID] {
	return func(yield func(id.NodeID) bool) {
		for n := range c.View().Nodes() {
			if !yield(n.ID) {
				return
			}
		}
	}
}

// DiskHangs reports that a write to this node's disk does not return: then the node leads nothing.
func (c *Cluster) DiskHangs() bool { return c.disks.Hangs() }

// RefusedPeers returns how many peers this node refuses now, by reason.
func (c *Cluster) RefusedPeers() map[string]int { return c.judge.Refused() }

// ExplainGroup returns in one line what this node knows about a queue's group and what will happen to it next, for
// people who look for the cause of a fault.
func (c *Cluster) ExplainGroup(q id.QueueUID) string { return c.liveness.Explain(q.Group()) }
