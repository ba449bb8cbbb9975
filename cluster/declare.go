package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/id"
)

// DeclareQueue places a new queue on size nodes, this one among them if it can be
// (RE-1), and returns when it has a leader with its configuration in force. If the queue
// exists, the catalog decides about equivalence. A queue that gets no leader in time is
// deleted again (RE-1).
func (c *Cluster) DeclareQueue(ctx context.Context, d catalog.DeclareQueue, size int, balanced bool) (catalog.Reply, error) {
	locator := placement.ClientLocal
	if balanced {
		locator = placement.Balanced
	}
	var err error
	d.Members, d.Leader, err = placement.Place(c.candidates(), size, c.local(), locator)
	if err != nil {
		if errors.Is(err, placement.ErrNoQuorum) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return catalog.Reply{}, fmt.Errorf("placing queue %q: %w", d.Name, err)
	}
	r, err := c.ProposeCatalog(ctx, &d)
	if err != nil || !r.Created {
		return r, err
	}
	if _, err := c.QueueStatus(ctx, r.UID); err != nil {
		return catalog.Reply{}, errors.Join(err, c.undeclare(ctx, &d, r.UID))
	}
	return r, nil
}

// undeclare deletes a queue that could not be started.
func (c *Cluster) undeclare(ctx context.Context, d *catalog.DeclareQueue, uid id.QueueUID) error {
	// The caller may have given up, but nothing may remain.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := c.ProposeCatalog(ctx, &catalog.DeleteQueue{VHost: d.VHost, Name: d.Name, UID: uid})
	if err != nil {
		return fmt.Errorf("deleting queue %q, which could not be started: delete it by hand: %w", d.Name, err)
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
	var nodes []placement.Candidate
	at := map[id.NodeID]int{}
	for n := range v.Nodes() {
		_, up := c.mux.Connected(n.ID)
		at[n.ID] = len(nodes)
		nodes = append(nodes, placement.Candidate{Node: n.ID, Alive: up || n.ID == c.cfg.Node})
	}
	for q := range v.Queues() {
		for _, m := range q.Members {
			if i, ok := at[m]; ok {
				nodes[i].Replicas++
			}
		}
		if i, ok := at[c.leaderOf(q.UID, q.Leader)]; ok {
			nodes[i].Leaders++
		}
	}
	return nodes
}
