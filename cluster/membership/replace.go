package membership

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Replacement describes the consequences of giving up what a node has stored, so that the node may come back under
// its id with an empty data directory (RE-9).
type Replacement struct {
	Node id.NodeID
	// Vacant reports that it was given up already, and Waits that a node with an empty directory
	// has come to take its place.
	Vacant, Waits bool
	// Keep is how many queues have a member there, and a majority without it.
	Keep int
	// Alone are the queues whose only member is there: they are deleted, their messages are lost.
	Alone []*catalog.QueueRecord
	// Short are the queues of which too few other members answer to continue without it.
	Short []*catalog.QueueRecord

	epoch id.Epoch
}

// PlanReplacement reports what ReplaceNode would do. It fails if the node is not known, or runs
// with what it has stored, or if the catalog has no majority.
func (o *Operator) PlanReplacement(ctx context.Context, n id.NodeID) (Replacement, error) {
	if err := o.cfg.Catalog.AwaitFresh(ctx); err != nil {
		return Replacement{}, fmt.Errorf("%w: the catalog has no majority without node %q: start the other nodes first: %w", traffic.ErrUnavailable, n, err)
	}
	v := o.cfg.Views.View()
	r, known := v.Node(n)
	if !known {
		return Replacement{}, fmt.Errorf("cluster: node %q is not registered in the cluster", n)
	}
	p := Replacement{Node: n, Vacant: r.Vacant, epoch: r.Epoch}
	now := time.Now()
	k, knocks := o.cfg.Judge.Of(n, now)
	p.Waits = knocks && k.Fresh
	if _, up := o.cfg.Transport.Connected(n); (up || n == o.cfg.Node || o.cfg.Judge.Returned(n, now)) && !r.Vacant {
		return p, fmt.Errorf("cluster: node %q runs with the data directory that the cluster knows it by: nothing of it is lost", n)
	}
	if r.Vacant {
		return p, nil
	}
	answers := o.cfg.Placer.ask()
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

// goesOnWithout reports whether a majority of a queue's members runs on other nodes.
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

// Err returns why the replacement is not allowed, or nil.
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
// its place under the same id, by itself and without a restart, and its members are rebuilt from their peers. It is
// refused while a group would have no majority without the node, and without acceptLoss if messages would be lost. To
// repeat it does no harm.
func (o *Operator) ReplaceNode(ctx context.Context, n id.NodeID, acceptLoss bool, report func(operation.Progress)) error {
	p, err := o.PlanReplacement(ctx, n)
	if err == nil {
		err = p.Err(acceptLoss)
	}
	if err != nil || p.Vacant {
		return err
	}
	if report != nil {
		report(operation.Progress{Phase: PhaseReplace, Detail: fmt.Sprintf("node %q", n)})
	}
	if _, err := o.cfg.Catalog.Propose(ctx, &catalog.ReplaceNode{ID: n, Epoch: p.epoch, AcceptLoss: acceptLoss}); err != nil {
		return err
	}
	o.replaced.Add(1)
	o.cfg.Logger.Warn("what a node had stored is given up", "peer", string(n), "queues", p.Keep, "queues_lost", len(p.Alone))
	o.cfg.Events.Queues().Add(event.Event{
		Kind: event.NodeReplaced, Node: n, AtMs: time.Now().UnixMilli(), Detail: fmt.Sprintf("%d queues, %d lost", p.Keep, len(p.Alone)),
	})
	return nil
}

// NodesReplaced returns how often this node has given up what another one had stored.
func (o *Operator) NodesReplaced() uint64 { return o.replaced.Load() }
