package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Replacement is what it means to give up what a node has stored, so that the node may come
// back under its id with an empty data directory (RE-9).
type Replacement struct {
	Node id.NodeID
	// Vacant tells that it was given up already, and Waits that a node with an empty directory
	// has come to take its place.
	Vacant, Waits bool
	// Keep is how many queues have a member there, and a majority without it.
	Keep int
	// Alone are those whose only member is there: they are deleted, their messages are lost.
	Alone []*catalog.QueueRecord
	// Short are those of which too few other members answer to go on without it.
	Short []*catalog.QueueRecord

	epoch id.Epoch
}

// PlanReplacement tells what ReplaceNode would do. It fails if the node is not known, or runs
// with what it has stored, or if the catalog has no majority.
func (c *Cluster) PlanReplacement(ctx context.Context, n id.NodeID) (Replacement, error) {
	if err := c.catalog.AwaitFresh(ctx); err != nil {
		return Replacement{}, fmt.Errorf("%w: the catalog has no majority without node %q: start the other nodes first: %w", traffic.ErrUnavailable, n, err)
	}
	v := c.View()
	r, known := v.Node(n)
	if !known {
		return Replacement{}, fmt.Errorf("cluster: node %q is not registered in the cluster", n)
	}
	p := Replacement{Node: n, Vacant: r.Vacant, epoch: r.Epoch}
	k, knocks := c.judge.Of(n, time.Now())
	p.Waits = knocks && k.Fresh
	if _, up := c.mux.Connected(n); (up || n == c.cfg.Node) && !r.Vacant {
		return p, fmt.Errorf("cluster: node %q runs with the data directory that the cluster knows it by: nothing of it is lost", n)
	}
	if r.Vacant {
		return p, nil
	}
	answers := c.askNodes()
	for q := range v.Queues() {
		if !q.Holds(n) || q.EndsWith(n) {
			continue
		}
		switch {
		case len(q.Members) == 1:
			p.Alone = append(p.Alone, q)
		case !goesOnWithout(q, n, answers):
			p.Short = append(p.Short, q)
		default:
			p.Keep++
		}
	}
	return p, nil
}

// goesOnWithout tells whether a majority of a queue's members runs on other nodes.
func goesOnWithout(q *catalog.QueueRecord, n id.NodeID, answers map[id.NodeID]*nodev1.NodeStatusResponse) bool {
	running := 0
	for _, m := range q.Members {
		a, answered := answers[m]
		bad := slices.ContainsFunc(a.GetGroups(), func(g *nodev1.GroupStatus) bool {
			return id.QueueUID(g.GetGroup()) == q.UID && g.GetFailed() != ""
		}) || slices.ContainsFunc(a.GetLost(), func(l *nodev1.LostMember) bool { return id.QueueUID(l.GetQueue()) == q.UID })
		if answered && m != n && !bad {
			running++
		}
	}
	return running > len(q.Members)/2
}

// Err says why the replacement is not allowed, or nil.
func (p *Replacement) Err(acceptLoss bool) error {
	if len(p.Short) > 0 {
		return fmt.Errorf("cluster: %s would have no majority without node %q: start the nodes of their other members first, or delete them, "+
			"or see quorate recover", recordNames(p.Short), p.Node)
	}
	if len(p.Alone) > 0 && !acceptLoss {
		return fmt.Errorf("cluster: node %q is the only member of %s, which would be deleted, with messages that are nowhere else: "+
			"say that this loss is accepted (--accept-loss)", p.Node, recordNames(p.Alone))
	}
	return nil
}

// recordNames names queues, not too many.
func recordNames(qs []*catalog.QueueRecord) string {
	text := ""
	for i, q := range qs {
		switch {
		case i == maxNamed:
			return text + fmt.Sprintf(" and %d more", len(qs)-maxNamed)
		case i > 0:
			text += ", "
		}
		text += fmt.Sprintf("queue %q in vhost %q", q.Name, q.VHost)
	}
	return text
}

// ReplaceNode gives up for good what a node has stored: one with an empty data directory takes
// its place under the same id, by itself and without a restart, and its members are built anew
// from their peers. It is refused while a group would have no majority without the node, and
// without acceptLoss if messages would be lost. To repeat it does no harm.
func (c *Cluster) ReplaceNode(ctx context.Context, n id.NodeID, acceptLoss bool, report func(Progress)) error {
	p, err := c.PlanReplacement(ctx, n)
	if err == nil {
		err = p.Err(acceptLoss)
	}
	if err != nil || p.Vacant {
		return err
	}
	if report != nil {
		report(Progress{Phase: PhaseReplace, Detail: fmt.Sprintf("node %q", n)})
	}
	if _, err := c.catalog.Propose(ctx, &catalog.ReplaceNode{ID: n, Epoch: p.epoch, AcceptLoss: acceptLoss}); err != nil {
		return err
	}
	c.replaced.Add(1)
	c.log.Warn("what a node had stored is given up", "peer", string(n), "queues", p.Keep, "queues_lost", len(p.Alone))
	c.events.Queues().Add(event.Event{
		Kind: event.NodeReplaced, Node: n, AtMs: time.Now().UnixMilli(), Detail: fmt.Sprintf("%d queues, %d lost", p.Keep, len(p.Alone)),
	})
	return nil
}

// NodesReplaced returns how often this node has given up what another one had stored.
func (c *Cluster) NodesReplaced() uint64 { return c.replaced.Load() }

// replaceLost gives up, while this node leads the catalog, what nodes had stored that have
// knocked with an empty data directory for ReconcileConfig.ReplaceAfter. What would lose
// messages, or leave a group without a majority, is left to an operator. It tells whether
// somebody knocks.
func (c *Cluster) replaceLost(now time.Time, told map[id.NodeID]string) (waiting bool) {
	after := c.cfg.Reconcile.ReplaceAfter
	if after == 0 {
		return false
	}
	for n := range c.View().Nodes() {
		k, knocks := c.judge.Of(n.ID, now)
		if !knocks || !k.Fresh || n.Vacant {
			delete(told, n.ID)
			continue
		}
		waiting = true
		if now.Sub(k.Since) < after {
			continue
		}
		ctx, cancel := c.commandContext(c.ctx)
		err := c.ReplaceNode(ctx, n.ID, false, nil)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) && told[n.ID] != err.Error() {
			told[n.ID] = err.Error()
			c.log.Warn("a node waits with an empty data directory and is not let in by itself", "peer", string(n.ID), "error", err)
		}
	}
	return waiting
}
