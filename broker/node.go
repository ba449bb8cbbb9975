package broker

import (
	"context"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

// ClusterStatus is the cluster as this node sees it.
type ClusterStatus struct {
	Cluster, Node string
	CatalogLeader string
	CatalogIndex  uint64
	Nodes         []NodeStatus
}

// NodeStatus is one node as this one sees it.
type NodeStatus struct {
	ID            string
	Epoch         uint64
	ClientAddress string
	Version       string
	Alive         bool // by gossip
	Connected     bool // to this node
	Replicas      int
	Leaders       int
	// Answers tells that the node was asked and what follows is what it said.
	Answers  bool
	Draining bool
	Start    StartProgress
	Counters map[string]uint64
	Disk     *Disk // as the node has told it; nil: it has not
}

// Disk is how the disk fares that a node's data directory is on.
type Disk struct {
	Pressure   string // none, low or floor
	Path       string
	Free       uint64        // bytes
	Low, Floor uint64        // limits of Free; 0: none
	Hangs      time.Duration // for how long a write has been under way, if that is too long; 0: it is not
	Stopped    int           // members that wait for room
	Refused    uint64        // publishes refused for want of room, since the node's start
	Moved      uint64        // leaders handed over for want of room, since the node's start
}

func diskOf(d *cluster.Disk) *Disk {
	if d == nil {
		return nil
	}
	return &Disk{
		Pressure: d.Pressure.String(), Path: d.Path, Free: d.Free, Low: d.Low, Floor: d.Floor,
		Hangs: d.Hangs, Stopped: d.Stopped, Refused: d.Refused, Moved: d.Moved,
	}
}

// StartProgress is how far a node's start is.
type StartProgress = cluster.StartProgress

// ClusterStatus returns the cluster's state. With details every node is asked how it is.
func (b *Broker) ClusterStatus(ctx context.Context, details bool) (ClusterStatus, error) {
	c, err := b.attachedCluster()
	if err != nil {
		return ClusterStatus{}, err
	}
	s, err := c.Status(ctx)
	if err != nil {
		return ClusterStatus{}, translate(err, Error{Kind: "cluster", Name: s.Name})
	}
	out := ClusterStatus{
		Cluster: s.Name, Node: string(s.Node), CatalogLeader: string(s.CatalogLeader), CatalogIndex: s.CatalogIndex,
		Nodes: make([]NodeStatus, len(s.Nodes)),
	}
	var said map[id.NodeID]cluster.NodeDetails
	if details {
		if said, err = c.NodeDetails(ctx); err != nil {
			return ClusterStatus{}, translate(err, Error{Kind: "cluster", Name: s.Name})
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		out.Nodes[i] = NodeStatus{
			ID: string(n.ID), Epoch: uint64(n.Epoch), ClientAddress: n.ClientAddr, Version: n.Version,
			Alive: n.Alive, Connected: n.Connected, Replicas: n.Replicas, Leaders: n.Leaders, Disk: diskOf(n.Disk),
		}
		d, answers := said[n.ID]
		out.Nodes[i].Answers, out.Nodes[i].Draining, out.Nodes[i].Start = answers, d.Draining, d.Start
		out.Nodes[i].Counters = d.Counters
	}
	return out, nil
}

// TransferLeadership moves a queue's leadership to one of its members; an empty node
// lets the leader choose.
func (b *Broker) TransferLeadership(ctx context.Context, vhost, queue, node string) error {
	c, err := b.attachedCluster()
	if err != nil {
		return err
	}
	rec, err := lookUp(c.View(), vhost, queue)
	if err != nil {
		return err
	}
	about := Error{VHost: vhost, Kind: "queue", Name: queue}
	if node != "" && !isMember(rec.Members, node) {
		about.Class, about.State, about.Arg, about.Value = PreconditionFailed, true, "node", node
		about.Reason = "is not a member of the queue; choose one of its members"
		return &about
	}
	return translate(c.TransferLeadership(ctx, rec.UID, id.NodeID(node)), about)
}

func isMember(members []id.NodeID, node string) bool {
	for _, m := range members {
		if string(m) == node {
			return true
		}
	}
	return false
}
