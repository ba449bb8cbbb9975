package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/gossip"
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

// Room returns disk.ErrNoSpace with what is short if a queue takes no messages for want of it,
// else nil.
func (c *Cluster) Room(uid id.QueueUID) error { return c.rooms.Of(uid) }

// Warning reports what an operator should look at although the node serves; "": nothing.
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
