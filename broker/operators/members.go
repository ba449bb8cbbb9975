package operators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

// The kinds of operation that change the members of queues (RE-3).
const (
	kindGrow      operation.Kind = "grow-queues"
	kindShrink    operation.Kind = "shrink-node"
	kindRebalance operation.Kind = "rebalance-queues"
	kindAdd       operation.Kind = "add-member"
	kindRemove    operation.Kind = "remove-member"
	kindReplace   operation.Kind = "replace-member"
	kindRebuild   operation.Kind = "rebuild-member"
	kindForget    operation.Kind = "forget-node"
	kindLost      operation.Kind = "replace-node"
	kindOut       operation.Kind = "remove-node"
)

// MaxPlanLines limits the lines of a Plan.
const MaxPlanLines = 1000

// Plan is what an operation would do.
type Plan struct {
	Lines []string // at most MaxPlanLines
	Total int      // number of changes, including those without a line
}

// Add counts a change, and adds a line about it if there is room.
func (p *Plan) Add(format string, args ...any) {
	p.Total++
	if len(p.Lines) < MaxPlanLines {
		p.Lines = append(p.Lines, fmt.Sprintf(format, args...))
	}
}

// QueueFilter chooses queues; the zero value chooses all.
type QueueFilter struct {
	VHost   string // "": every vhost
	Pattern string // as in path.Match; "": every name
}

func (f QueueFilter) String() string {
	switch {
	case f == (QueueFilter{}):
		return "all queues"
	case f.VHost == "":
		return fmt.Sprintf("queues %q", f.Pattern)
	case f.Pattern == "":
		return fmt.Sprintf("all queues in vhost %q", f.VHost)
	}
	return fmt.Sprintf("queues %q in vhost %q", f.Pattern, f.VHost)
}

// filter converts f for package membership and checks it.
func (o *Operators) filter(f QueueFilter, evenOnly bool) (membership.QueueFilter, error) {
	out := membership.QueueFilter{VHost: f.VHost, Name: f.Pattern, EvenOnly: evenOnly}
	if err := out.Validate(); err != nil {
		return out, &failure.Error{Class: failure.PreconditionFailed, Kind: "queues", Arg: "pattern", Value: f.Pattern, Reason: "cannot be read; use *, ? and [a-z], and \\ in front of one of them"}
	}
	_, err := o.serving.ViewOf(f.VHost)
	return out, err
}

// Grow asks to make a node a member of queues.
type Grow struct {
	Node   string
	Queues QueueFilter
	// EvenOnly leaves out queues with an odd number of members.
	EvenOnly bool
	DryRun   bool // only make the plan
}

// Grow starts to make a node a member of queues, or only makes the plan.
func (o *Operators) Grow(ctx context.Context, g Grow) (Operation, Plan, error) {
	c := o.cluster
	f, err := o.filter(g.Queues, g.EvenOnly)
	if err != nil {
		return Operation{}, Plan{}, err
	}
	if err := o.checkNode(c, g.Node); err != nil {
		return Operation{}, Plan{}, err
	}
	if g.DryRun {
		var p Plan
		for q := range c.View().Queues() {
			if f.Matches(q) && !isMember(q.Members, g.Node) {
				p.Add("queue %q in vhost %q: node %q becomes member %d", q.Name, q.VHost, g.Node, len(q.Members)+1)
			}
		}
		return Operation{}, p, nil
	}
	op, err := o.Start(ctx, kindGrow, fmt.Sprintf("node %q, %s", g.Node, g.Queues), func(ctx context.Context, report func(operation.Progress)) error {
		return c.Operator().Grow(ctx, id.NodeID(g.Node), f, report)
	})
	return op, Plan{}, err
}

// Shrink asks to remove a node from the members of queues.
type Shrink struct {
	Node   string
	Queues QueueFilter
	// KeepSize lets another node take its place in each queue, if there is one.
	KeepSize bool
	Exclude  []string // nodes that may not take its place
	DryRun   bool     // only make the plan
}

// Shrink starts to remove a node from the members of queues, or only makes the plan.
func (o *Operators) Shrink(ctx context.Context, s Shrink) (Operation, Plan, error) {
	c := o.cluster
	f, err := o.filter(s.Queues, false)
	if err != nil {
		return Operation{}, Plan{}, err
	}
	for _, n := range append(slices.Clone(s.Exclude), s.Node) {
		if err := o.checkNode(c, n); err != nil {
			return Operation{}, Plan{}, err
		}
	}
	if s.DryRun {
		return Operation{}, planLeave(c.View(), f, s.Node, s.KeepSize), nil
	}
	op, err := o.Start(ctx, kindShrink, fmt.Sprintf("node %q, %s", s.Node, s.Queues), func(ctx context.Context, report func(operation.Progress)) error {
		return c.Operator().Shrink(ctx, id.NodeID(s.Node), f, s.KeepSize, nodeIDs(s.Exclude), report)
	})
	return op, Plan{}, err
}

// planLeave lists the queues that a node would leave.
func planLeave(v *catalog.View, f membership.QueueFilter, node string, replace bool) (p Plan) {
	for q := range v.Queues() {
		switch {
		case !f.Matches(q) || !isMember(q.Members, node):
		case replace:
			p.Add("queue %q in vhost %q: node %q leaves, another node takes its place if there is one", q.Name, q.VHost, node)
		case len(q.Members) == 1:
			p.Add("queue %q in vhost %q: node %q is the last member and stays", q.Name, q.VHost, node)
		default:
			p.Add("queue %q in vhost %q: node %q leaves, %d of %d members stay", q.Name, q.VHost, node, len(q.Members)-1, len(q.Members))
		}
	}
	return p
}

// Rebalance asks to spread queues evenly over the nodes.
type Rebalance struct {
	Queues      QueueFilter
	LeadersOnly bool // members stay where they are
	DryRun      bool // only make the plan
}

// Rebalance starts to spread members and leaders of queues evenly over the nodes, or only makes the plan.
func (o *Operators) Rebalance(ctx context.Context, r Rebalance) (Operation, Plan, error) {
	c := o.cluster
	f, err := o.filter(r.Queues, false)
	if err != nil {
		return Operation{}, Plan{}, err
	}
	if r.DryRun {
		return Operation{}, o.planRebalance(f, r.LeadersOnly), nil
	}
	target := r.Queues.String()
	if r.LeadersOnly {
		target = "leaders of " + target
	}
	op, err := o.Start(ctx, kindRebalance, target, func(ctx context.Context, report func(operation.Progress)) error {
		return c.Operator().Rebalance(ctx, f, r.LeadersOnly, report)
	})
	return op, Plan{}, err
}

// planRebalance lists what a rebalance would move; a queue that is deleted meanwhile is left out.
func (o *Operators) planRebalance(f membership.QueueFilter, leadersOnly bool) (p Plan) {
	moves, transfers := o.cluster.Operator().PlanRebalance(f, leadersOnly)
	v := o.cluster.View()
	for _, m := range moves {
		if q, ok := v.QueueByUID(m.Group); ok {
			p.Add("queue %q in vhost %q: node %q becomes a member, then node %q leaves", q.Name, q.VHost, m.Join, m.Leave)
		}
	}
	for _, t := range transfers {
		if q, ok := v.QueueByUID(t.Group); ok {
			p.Add("queue %q in vhost %q: node %q leads instead of node %q", q.Name, q.VHost, t.To, t.From)
		}
	}
	return p
}

// ChangeMember asks to change the members of one queue: To becomes a member, and From leaves; either may be empty. If
// From equals To, that member is rebuilt from the others.
type ChangeMember struct {
	VHost, Queue string
	From, To     string
	DryRun       bool // only make the plan
}

// ChangeMember starts to change a queue's members, or only makes the plan.
func (o *Operators) ChangeMember(ctx context.Context, m ChangeMember) (Operation, Plan, error) {
	c := o.cluster
	rec, err := serving.LookUp(c.View(), m.VHost, m.Queue)
	if err != nil {
		return Operation{}, Plan{}, err
	}
	if err := o.checkChange(c, rec, m); err != nil {
		return Operation{}, Plan{}, err
	}
	if m.DryRun {
		return Operation{}, planChange(m), nil
	}
	about := QueueTarget(rec.VHost, rec.Name) + ", "
	from, to := id.NodeID(m.From), id.NodeID(m.To)
	var op Operation
	switch {
	case from == "":
		op, err = o.Start(ctx, kindAdd, about+fmt.Sprintf("node %q", to), func(ctx context.Context, report func(operation.Progress)) error {
			return c.Operator().AddMember(ctx, rec.UID, to, report)
		})
	case to == "":
		op, err = o.Start(ctx, kindRemove, about+fmt.Sprintf("node %q", from), func(ctx context.Context, report func(operation.Progress)) error {
			return c.Operator().RemoveMember(ctx, rec.UID, from, report)
		})
	default:
		kind, target := kindReplace, fmt.Sprintf("node %q by node %q", from, to)
		if from == to {
			kind, target = kindRebuild, fmt.Sprintf("node %q", from)
		}
		op, err = o.Start(ctx, kind, about+target, func(ctx context.Context, report func(operation.Progress)) error {
			return c.Operator().ReplaceMember(ctx, rec.UID, from, to, report)
		})
	}
	return op, Plan{}, err
}

// checkChange refuses a change that makes no sense.
func (o *Operators) checkChange(c *cluster.Cluster, rec *catalog.QueueRecord, m ChangeMember) error {
	fault := func(arg, value, reason string) error {
		return &failure.Error{Class: failure.PreconditionFailed, State: true, VHost: rec.VHost, Kind: "queue", Name: rec.Name, Arg: arg, Value: value, Reason: reason}
	}
	members := fmt.Sprintf("its members are %q", rec.Members)
	if m.From != "" && !isMember(rec.Members, m.From) {
		return fault("node", m.From, "is not a member of the queue; "+members)
	}
	if m.To != "" && m.To != m.From {
		if err := o.checkNode(c, m.To); err != nil {
			return err
		}
		if isMember(rec.Members, m.To) {
			return fault("node", m.To, "is a member of the queue already; "+members)
		}
	}
	if m.To == "" && slices.Equal(rec.Members, []id.NodeID{id.NodeID(m.From)}) {
		return fault("node", m.From, "is the last member of the queue; add another one first, or delete the queue")
	}
	return nil
}

// planChange describes a change of one queue's members that checkChange has accepted.
func planChange(m ChangeMember) (p Plan) {
	switch {
	case m.From == "":
		p.Add("queue %q in vhost %q: node %q becomes a member", m.Queue, m.VHost, m.To)
	case m.To == "":
		p.Add("queue %q in vhost %q: node %q leaves, its copy of the messages is deleted", m.Queue, m.VHost, m.From)
	case m.From == m.To:
		p.Add("queue %q in vhost %q: node %q deletes its copy of the messages and receives it anew from the others", m.Queue, m.VHost, m.From)
	default:
		p.Add("queue %q in vhost %q: node %q becomes a member, then node %q leaves and its copy of the messages is deleted", m.Queue, m.VHost, m.To, m.From)
	}
	return p
}

// Forget starts to remove a node from the cluster for good, or only makes the plan. With replace, other nodes take its
// place in queues first.
func (o *Operators) Forget(ctx context.Context, node string, replace, dryRun bool) (Operation, Plan, error) {
	c := o.cluster
	if err := o.checkNode(c, node); err != nil {
		return Operation{}, Plan{}, err
	}
	if dryRun {
		p := planLeave(c.View(), membership.QueueFilter{}, node, replace)
		p.Add("node %q is forgotten; it comes back only with an empty data directory", node)
		return Operation{}, p, nil
	}
	op, err := o.Start(ctx, kindForget, fmt.Sprintf("node %q", node), func(ctx context.Context, report func(operation.Progress)) error {
		return c.Operator().ForgetNode(ctx, id.NodeID(node), replace, report)
	})
	return op, Plan{}, err
}

// Replace starts to give up what a node had stored, or only makes the plan. Afterwards the node can come back under its
// id with an empty data directory (RE-9). Replace is refused while a group would have no majority without the node. If
// no other node has some messages, it is also refused unless acceptLoss is set.
func (o *Operators) Replace(ctx context.Context, node string, acceptLoss, dryRun bool) (Operation, Plan, error) {
	c := o.cluster
	if err := o.checkNode(c, node); err != nil {
		return Operation{}, Plan{}, err
	}
	at, err := c.Operator().PlanReplacement(ctx, id.NodeID(node))
	if err != nil {
		return Operation{}, Plan{}, refusedNode(node, err)
	}
	if dryRun {
		return Operation{}, planReplacement(&at), nil
	}
	if err := at.Err(acceptLoss); err != nil {
		return Operation{}, Plan{}, refusedNode(node, err)
	}
	op, err := o.Start(ctx, kindLost, fmt.Sprintf("node %q", node), func(ctx context.Context, report func(operation.Progress)) error {
		return c.Operator().ReplaceNode(ctx, id.NodeID(node), acceptLoss, report)
	})
	return op, Plan{}, err
}

// refusedNode refuses a change of nodes. The class is Unavailable if the reason is that other nodes do not answer.
func refusedNode(node string, err error) error {
	e := &failure.Error{Class: failure.PreconditionFailed, State: true, Kind: "node", Name: node, Reason: strings.TrimPrefix(err.Error(), "cluster: ")}
	if errors.Is(err, traffic.ErrUnavailable) {
		e.Class, e.RetryAfter = failure.Unavailable, failure.RetryAfter
	}
	return e
}

// planReplacement describes what Replace would do, and why it would be refused.
func planReplacement(at *membership.Replacement) (p Plan) {
	if at.Vacant {
		p.Add("node %q: what it had stored was given up already; it comes in with an empty data directory", at.Node)
		return p
	}
	for _, q := range at.Short {
		p.Add("REFUSED: queue %q in vhost %q has no majority without node %q", q.Name, q.VHost, at.Node)
	}
	for _, q := range at.Alone {
		p.Add("LOST: queue %q in vhost %q is deleted with its messages, no other node has a copy (--accept-loss)", q.Name, q.VHost)
	}
	p.Add("%d queues have a majority without node %q; its members are built anew from the others", at.Keep, at.Node)
	if at.Waits {
		p.Add("node %q waits with an empty data directory and comes in by itself", at.Node)
	} else {
		p.Add("node %q comes in when it is started with an empty data directory; its old disk never comes back", at.Node)
	}
	return p
}

// Remove starts to remove a running node from the cluster for good, or only makes the plan. The node drains, other
// nodes take its place in queues, but none of exclude, and then it is forgotten.
func (o *Operators) Remove(ctx context.Context, node string, exclude []string, dryRun bool) (Operation, Plan, error) {
	c := o.cluster
	for _, n := range append(slices.Clone(exclude), node) {
		if err := o.checkNode(c, n); err != nil {
			return Operation{}, Plan{}, err
		}
	}
	at, err := c.Operator().PlanRemoval(id.NodeID(node), nodeIDs(exclude))
	if err != nil {
		return Operation{}, Plan{}, refusedNode(node, err)
	}
	if dryRun {
		return Operation{}, planRemoval(c.View(), node, &at), nil
	}
	if err := at.Err(id.NodeID(node)); err != nil {
		return Operation{}, Plan{}, refusedNode(node, err)
	}
	op, err := o.Start(ctx, kindOut, fmt.Sprintf("node %q", node), func(ctx context.Context, report func(operation.Progress)) error {
		return c.Operator().RemoveNode(ctx, id.NodeID(node), nodeIDs(exclude), report)
	})
	return op, Plan{}, err
}

// planRemoval describes what Remove would do, and why it would be refused; v is the view from which at was computed.
func planRemoval(v *catalog.View, node string, at *membership.Removal) (p Plan) {
	for _, q := range at.Last {
		p.Add("REFUSED: queue %q in vhost %q has its only member on node %q, and no other node can take its place", q.Name, q.VHost, node)
	}
	for _, m := range at.Moves {
		q, ok := v.QueueByUID(m.Group)
		switch {
		case !ok:
		case m.Join == "":
			p.Add("queue %q in vhost %q: node %q leaves, no other node is free: %d of %d members stay", q.Name, q.VHost, node, len(q.Members)-1, len(q.Members))
		default:
			p.Add("queue %q in vhost %q: node %q becomes a member, then node %q leaves", q.Name, q.VHost, m.Join, node)
		}
	}
	if at.End > 0 {
		p.Add("%d queues end with node %q: they are not durable, or exclusive to a connection there", at.End, node)
	}
	p.Add("node %q drains, leads nothing any more, and is forgotten; it comes back only with an empty data directory", node)
	return p
}

// nodeIDs converts names to ids. checkNode has found these names in the catalog.
func nodeIDs(names []string) []id.NodeID {
	out := make([]id.NodeID, len(names))
	for i, n := range names {
		out[i] = id.NodeID(n)
	}
	return out
}
