package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// Removal is what it takes to take a node that runs out of the cluster for good (RE-3).
type Removal struct {
	Moves []placement.Move // Join is "" where no other node can take its place
	// Last are queues whose only member the node is, and that no other node can take.
	Last []*catalog.QueueRecord
	// End are queues that end with the node, as they are not durable or belong to one of its
	// connections.
	End int
}

// PlanRemoval reports what RemoveNode would do now. It fails if the node is not known, is this
// one, or if those that stay would be no majority.
func (o *Operator) PlanRemoval(n id.NodeID, exclude []id.NodeID) (Removal, error) {
	if err := o.checkOperation(QueueFilter{}, append(slices.Clone(exclude), n)...); err != nil {
		return Removal{}, err
	}
	if n == o.cfg.Node {
		return Removal{}, o.ownRemoval()
	}
	stay, there := 0, 0
	for r := range o.cfg.Views.View().Nodes() {
		if r.ID == n {
			continue
		}
		stay++
		if _, up := o.cfg.Transport.Connected(r.ID); up || r.ID == o.cfg.Node {
			there++
		}
	}
	if there <= stay/2 {
		return Removal{}, fmt.Errorf("cluster: without node %q only %d of %d nodes would be there, which is no majority: start others first", n, there, stay)
	}
	return o.removal(n, exclude), nil
}

// ownRemoval is the error for a node that is asked to remove itself. It names one that is there and can do it, at best
// one that does not drain and may soon be stopped.
func (o *Operator) ownRemoval() error {
	var ask []id.NodeID
	for r := range o.cfg.Views.View().Nodes() {
		if _, up := o.cfg.Transport.Connected(r.ID); up && r.ID != o.cfg.Node {
			ask = append(ask, r.ID)
		}
	}
	if len(ask) == 0 {
		return fmt.Errorf("cluster: node %q cannot carry out its own removal, and is connected to no other node that could", o.cfg.Node)
	}
	best := max(0, slices.IndexFunc(ask, func(n id.NodeID) bool { return !o.cfg.Transport.Drains(n) }))
	return fmt.Errorf("cluster: node %q cannot carry out its own removal: ask another node, such as %q", o.cfg.Node, ask[best])
}

// removal plans what goes with the node. It changes nothing.
func (o *Operator) removal(n id.NodeID, exclude []id.NodeID) (out Removal) {
	moves, without := o.planShrink(n, QueueFilter{}, true, exclude)
	out.Moves = moves
	v := o.cfg.Views.View()
	for _, uid := range without {
		switch r, ok := v.QueueByUID(uid); {
		case !ok:
		case len(r.Members) == 1:
			out.Last = append(out.Last, r)
		default:
			out.Moves = append(out.Moves, placement.Move{Group: uid, Leave: n})
		}
	}
	for r := range v.Queues() {
		if r.EndsWith(n) {
			out.End++
		}
	}
	return out
}

// planShrink plans to take a node out of queues; nodes of exclude, and those that drain, take no
// place.
func (o *Operator) planShrink(n id.NodeID, f QueueFilter, keepSize bool, exclude []id.NodeID) (moves []placement.Move, stay []id.QueueUID) {
	s := o.cfg.Placer.state(f.Matches, nil)
	for i := range s.Nodes {
		s.Nodes[i].Alive = s.Nodes[i].Alive && !slices.Contains(exclude, s.Nodes[i].Node)
	}
	return placement.Shrink(s, n, keepSize)
}

// takeOut carries out moves that take a node out of queues. With keepSize, a queue that lost a member because no
// other node was free gets another one when there are more nodes (RE-4).
func (o *Operator) takeOut(ctx context.Context, moves []placement.Move, keepSize bool, report func(operation.Progress)) error {
	return o.move(ctx, moves, report, func(ctx context.Context, m placement.Move, report func(operation.Progress)) error {
		switch {
		case m.Join != "":
			return o.ReplaceMember(ctx, m.Group, m.Leave, m.Join, report)
		case keepSize:
			return o.changeOne(ctx, catalog.BeginMemberChange{UID: m.Group, Leave: m.Leave}, nil, report)
		default:
			return o.RemoveMember(ctx, m.Group, m.Leave, report)
		}
	})
}

// removeTick is the interval between checks of what a node that is being removed still holds.
const removeTick = 100 * time.Millisecond

// Shrink takes a node out of all queues that the filter chooses; with keepSize another node, none of exclude, takes
// its place in each. Queues without such a node, and queues whose only member is the node, stay as they are and are
// named in the error.
func (o *Operator) Shrink(ctx context.Context, n id.NodeID, f QueueFilter, keepSize bool, exclude []id.NodeID, report func(operation.Progress)) error {
	if err := o.checkOperation(f, append(slices.Clone(exclude), n)...); err != nil {
		return err
	}
	moves, stay := o.planShrink(n, f, keepSize, exclude)
	err := o.takeOut(ctx, moves, keepSize, report)
	if len(stay) > 0 {
		err = errors.Join(err, fmt.Errorf("cluster: node %q stays a member of %s: there is no other node that could take its place",
			n, o.named(stay)))
	}
	return err
}

// RemoveNode takes a node that runs out of the cluster for good: it drains, other nodes take its
// place in queues, but none of exclude, then its member of the catalog group is taken out and
// the node is forgotten. A queue for which no other node is free has one member less
// afterwards; one whose only member would go keeps the node from being removed, and nothing is
// begun. A removal that was broken off leaves the node draining, and can be repeated.
func (o *Operator) RemoveNode(ctx context.Context, n id.NodeID, exclude []id.NodeID, report func(operation.Progress)) error {
	p, err := o.PlanRemoval(n, exclude)
	if err != nil {
		return err
	}
	if err := p.Err(n); err != nil {
		return err
	}
	if err := o.drainThere(ctx, n, report); err != nil {
		return err
	}
	if err := o.emptyAndForget(ctx, n, exclude, report); err != nil {
		return err
	}
	for o.cfg.Views.View().Leaves(n) { // the catalog's group continues without it
		if err := wait.For(ctx, removeTick); err != nil {
			return err
		}
	}
	return nil
}

// maxForgets bounds how often a node that is removed is found to hold a queue again, because a client has declared one.
const maxForgets = 50

// emptyAndForget takes a node that drains out of all queues, and then out of the catalog. Clients may declare queues there
// until the second is done.
func (o *Operator) emptyAndForget(ctx context.Context, n id.NodeID, exclude []id.NodeID, report func(operation.Progress)) error {
	for tries := 1; ; tries++ {
		if err := o.empty(ctx, n, exclude, report); err != nil {
			return err
		}
		report(operation.Progress{Phase: PhaseForget, Detail: fmt.Sprintf("node %q", n)})
		_, err := o.cfg.Catalog.Propose(ctx, &catalog.ForgetNode{ID: n})
		var refused *catalog.Error
		if !errors.As(err, &refused) || refused.Code != catalog.CodePreconditionFailed || tries == maxForgets {
			return err
		}
		if err := wait.For(ctx, removeTick); err != nil {
			return errors.Join(refused, err)
		}
	}
}

// empty takes a node out of all queues that this node's view shows.
func (o *Operator) empty(ctx context.Context, n id.NodeID, exclude []id.NodeID, report func(operation.Progress)) error {
	for o.holdsQueues(n) {
		p := o.removal(n, exclude)
		if err := p.Err(n); err != nil {
			return err
		}
		if err := o.takeOut(ctx, p.Moves, true, report); err != nil {
			return err
		}
		if err := wait.For(ctx, removeTick); err != nil { // a change that others began may go on
			return err
		}
	}
	return nil
}

// Err returns why the node cannot be removed, or nil.
func (p *Removal) Err(n id.NodeID) error {
	if len(p.Last) == 0 {
		return nil
	}
	return fmt.Errorf("cluster: node %q is the only member of %s, and no other node can take its place: start another node, exclude fewer, "+
		"or delete what is not needed", n, recordNames(p.Last))
}

// holdsQueues reports whether a node is a member of a queue that does not end with it.
func (o *Operator) holdsQueues(n id.NodeID) bool {
	for r := range o.cfg.Views.View().Queues() {
		if r.Holds(n) && !r.EndsWith(n) {
			return true
		}
	}
	return false
}

// drainThere drains another node, as far as there are others that take over: what it leads
// alone moves with its members.
func (o *Operator) drainThere(ctx context.Context, n id.NodeID, report func(operation.Progress)) error {
	op, err := o.cfg.Unloader.StartDrain(ctx, n, 0)
	for err == nil && op.State == operation.Running {
		report(op.Progress)
		op, err = o.cfg.Jobs.Await(ctx, op.ID, op.Version)
	}
	return err
}

// ForgetNode takes a node out of the cluster for good. It is refused while the node is a
// member of queues, unless replace is set: then other nodes take its place first. A node
// that runs is refused as well: stop it first.
func (o *Operator) ForgetNode(ctx context.Context, n id.NodeID, replace bool, report func(operation.Progress)) error {
	if err := o.checkOperation(QueueFilter{}, n); err != nil {
		return err
	}
	if _, up := o.cfg.Transport.Connected(n); up || n == o.cfg.Node {
		return fmt.Errorf("cluster: node %q runs: stop it for good before the cluster forgets it", n)
	}
	if report == nil {
		report = func(operation.Progress) {}
	}
	if replace {
		if err := o.Shrink(ctx, n, QueueFilter{}, true, nil, report); err != nil {
			return err
		}
	}
	report(operation.Progress{Phase: PhaseForget, Detail: fmt.Sprintf("node %q", n)})
	_, err := o.cfg.Catalog.Propose(ctx, &catalog.ForgetNode{ID: n})
	return err
}
