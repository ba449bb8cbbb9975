package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

// recovered loses the disks of two nodes of three, one after the other, and lets the third continue alone, as
// operators do with quorate recover (docs/operations.md). In general that may lose what was confirmed, but not here:
// the second disk is lost only when the survivor has all that was confirmed until the first one was, and from then on
// nothing is confirmed that the survivor does not have, because only it and the second node are left to make a
// majority.
func recovered(ctx context.Context, s *Scene, d target.Recovery, c Choice) (Fault, error) {
	if len(c.Nodes) != target.RecoveredOf {
		return Fault{}, fmt.Errorf("fault: nodes %q are free: recover needs %d", c.Nodes, target.RecoveredOf)
	}
	nodes := rotated(c.Nodes, c.Pick)
	survivor, first, second := nodes[0], nodes[1], nodes[2]
	if err := whole(ctx, s); err != nil {
		return Fault{}, err
	}
	bit := endsProcesses(ctx, s, nodes)
	if err := d.Lose(ctx, first); err != nil {
		return Fault{}, err
	}
	if err := holdsAll(ctx, s, survivor, time.Now()); err != nil {
		return Fault{Heal: func(ctx context.Context) error {
			return errors.Join(d.Start(ctx, first), replaced(ctx, s, first), whole(ctx, s))
		}}, err
	}
	err := errors.Join(d.Lose(ctx, second), d.Kill(ctx, survivor))
	return Fault{Bit: bit, Heal: func(ctx context.Context) error {
		lost := []string{first, second}
		if err := errors.Join(d.Recover(ctx, survivor, lost), d.Start(ctx, survivor), s.Cluster.WaitReady(ctx, survivor)); err != nil {
			return err
		}
		for _, n := range lost { // their disks are empty: they join as new nodes do
			if err := d.Start(ctx, n); err != nil {
				return err
			}
		}
		return whole(ctx, s)
	}}, err
}

// holdsAll waits until a node has all that was confirmed before the time at, at which another node was lost: for the
// catalog by a view that was confirmed later, for each queue by what a later leader had in its log.
func holdsAll(ctx context.Context, s *Scene, node string, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	c, err := client.Dial(ctx, s.Cluster.Dial(node))
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		status, err := c.ClusterStatus(ctx)
		if err == nil && status.Hindrance == "" && status.ViewAge != nil && *status.ViewAge < time.Since(at) {
			break
		}
		if wait.For(ctx, pollEvery) != nil {
			return fmt.Errorf("fault: the view of node %s is not confirmed: %q: %w", node, status.Hindrance, errors.Join(err, ctx.Err()))
		}
	}
	queues, err := client.Collect(c.Queues(ctx, client.ListQueuesRequest{}))
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	return each.Of(queues, askedAtOnce, func(q client.QueueInfo) error { return catchesUp(ctx, c, node, q) })
}

// catchesUp waits until a node's member of a queue has applied all that the queue's leader had in its log at the first
// look.
func catchesUp(ctx context.Context, c *client.Client, node string, q client.QueueInfo) error {
	var until uint64
	for {
		members, err := client.Collect(c.QueueMembers(ctx, client.ListQueueMembersRequest{VHost: q.VHost, Queue: q.Name}))
		if client.ClassOf(err) == client.NotFound { // a client has deleted it meanwhile
			return nil
		}
		if until == 0 {
			until = leaderHas(members)
		}
		for _, m := range members {
			if until > 0 && m.Node == node && m.Raft != nil && m.Raft.AppliedIndex >= until {
				return nil
			}
		}
		if wait.For(ctx, pollEvery) != nil {
			return fmt.Errorf("fault: node %s lacks entries of queue %q, which has %d: %w", node, q.Name, until, errors.Join(err, ctx.Err()))
		}
	}
}

// leaderHas returns the last index of the leader of the newest term; 0: there is no leader.
func leaderHas(members []client.QueueMember) (index uint64) {
	var term uint64
	for _, m := range members {
		if m.State == "leader" && m.Raft != nil && m.Raft.Term >= term {
			term, index = m.Raft.Term, m.Raft.LastIndex
		}
	}
	return index
}
