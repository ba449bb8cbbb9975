package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

// DeclareQueue places a new queue on size nodes, this one among them if it can be
// (RE-1), on this one alone if it is not durable, and returns when it has a leader with its configuration in force. If the queue
// exists, the catalog decides about equivalence. A queue that gets no leader in time is
// deleted again (RE-1).
func (c *Cluster) DeclareQueue(ctx context.Context, d catalog.DeclareQueue, size int, balanced bool) (catalog.Reply, error) {
	if err := c.place(&d, size, balanced); err != nil {
		return catalog.Reply{}, err
	}
	ctx, cancel := c.commandContext(ctx)
	defer cancel()
	r, err := c.ProposeCatalog(ctx, &d)
	if err != nil || !r.Created {
		return r, err
	}
	// What is left of the time is for taking the queue back.
	starting := ctx
	if end, bounded := ctx.Deadline(); bounded {
		var stop context.CancelFunc
		starting, stop = context.WithDeadline(ctx, end.Add(-time.Until(end)/undeclareShare))
		defer stop()
	}
	if _, err := c.leaders.Status(starting, r.UID); err != nil {
		return catalog.Reply{}, errors.Join(err, c.undeclare(ctx, &d, r.UID))
	}
	return r, nil
}

const (
	// undeclareShare is the part of the time of a declaration, one in so many, that is
	// kept for taking it back.
	undeclareShare = 5
	// undeclareLeast is how long it is tried even if the caller has given up.
	undeclareLeast = time.Second
)

// place chooses the members of a queue; one that exists keeps its own.
func (c *Cluster) place(d *catalog.DeclareQueue, size int, balanced bool) error {
	if old, ok := c.View().Queue(d.VHost, d.Name); ok {
		d.Members, d.Leader = old.Members, old.Leader
		return nil
	}
	if !d.Durable {
		return c.placeHere(d)
	}
	nodes := c.candidates()
	if len(nodes) == 0 {
		return fmt.Errorf("%w: queue %q cannot be placed: no node is registered in the catalog yet", traffic.ErrUnavailable, d.Name)
	}
	locator := placement.ClientLocal
	if balanced {
		locator = placement.Balanced
	}
	var err error
	d.Members, d.Leader, err = placement.Place(nodes, size, c.local(), locator)
	if short := c.rooms.Shortage(); errors.Is(err, placement.ErrNoQuorum) && short != "" {
		return fmt.Errorf("%w: queue %q in vhost %q cannot be placed: %s", disk.ErrNoSpace, d.Name, d.VHost, short)
	}
	if errors.Is(err, placement.ErrNoQuorum) {
		err = fmt.Errorf("%w: %w", traffic.ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("placing queue %q: %w", d.Name, err)
	}
	return nil
}

// placeHere places a queue that lives as long as this process.
func (c *Cluster) placeHere(d *catalog.DeclareQueue) error {
	if n, registered := c.View().Node(c.cfg.Node); !registered || n.Epoch != c.epoch {
		return fmt.Errorf("%w: queue %q cannot be placed: this node is not registered in the catalog yet", traffic.ErrUnavailable, d.Name)
	}
	if !c.disks.Fine(c.cfg.Node) {
		return fmt.Errorf("%w: queue %q in vhost %q cannot be placed: %s", disk.ErrNoSpace, d.Name, d.VHost, c.rooms.Shortage())
	}
	d.Members, d.Leader, d.Home = []id.NodeID{c.cfg.Node}, c.cfg.Node, c.epoch
	return nil
}

// undeclare deletes a queue that could not be started.
func (c *Cluster) undeclare(ctx context.Context, d *catalog.DeclareQueue, uid id.QueueUID) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), undeclareLeast)
		defer cancel()
	}
	_, err := c.ProposeCatalog(ctx, &catalog.DeleteQueue{VHost: d.VHost, Name: d.Name, UID: uid})
	if err != nil {
		return fmt.Errorf("queue %q could not be started and remains: delete it: %w", d.Name, err)
	}
	return nil
}

// local returns this node if the catalog knows it.
func (c *Cluster) local() id.NodeID {
	if _, registered := c.View().Node(c.cfg.Node); registered {
		return c.cfg.Node
	}
	return ""
}

// candidates returns the registered nodes with what each carries.
func (c *Cluster) candidates() []placement.Candidate {
	v := c.View()
	loads := c.host.loads.at(v)
	var nodes []placement.Candidate
	for n := range v.Nodes() {
		_, up := c.mux.Connected(n.ID)
		l := loads[n.ID]
		nodes = append(nodes, placement.Candidate{
			// A node whose disk is nearly full comes last, as one that is down.
			Node: n.ID, Alive: (up || n.ID == c.cfg.Node) && c.disks.Fine(n.ID), Replicas: l.replicas, Leaders: l.leaders,
		})
	}
	return nodes
}
