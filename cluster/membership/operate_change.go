package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

// operationTick is the interval between checks of an operation's progress.
const operationTick = 200 * time.Millisecond

// cancelTimeout bounds the attempt to take an operation back after its ctx has ended.
const cancelTimeout = 5 * time.Second

// AddMember makes a node a member of a queue (RE-3). It returns when the node votes.
//
// This and all operations below: report, if not nil, is called from one goroutine and
// must not block. The end of ctx takes back what has not taken effect; the queue's leader finishes what can no longer
// be taken back. A change survives the loss of the leader and of this node. One change at a time per queue: others
// wait.
func (o *Operator) AddMember(ctx context.Context, q id.QueueUID, n id.NodeID, report func(operation.Progress)) error {
	grown := func(r *catalog.QueueRecord) int { return len(r.Members) + 1 }
	return o.changeOne(ctx, catalog.BeginMemberChange{UID: q, Join: n}, grown, report)
}

// RemoveMember takes a node out of a queue (RE-3). It is refused for the last member, and
// waits while those that stay are not a majority that is there. It is taken back if one of them has
// lost its data and is to be rebuilt first, as with ReplaceMember where both nodes are one.
func (o *Operator) RemoveMember(ctx context.Context, q id.QueueUID, n id.NodeID, report func(operation.Progress)) error {
	if _, registered := o.cfg.Views.View().Node(n); !registered {
		return fmt.Errorf("cluster: node %q is not registered in the cluster", n)
	}
	shrunk := func(r *catalog.QueueRecord) int { return max(1, len(r.Members)-1) }
	return o.changeOne(ctx, catalog.BeginMemberChange{UID: q, Leave: n}, shrunk, report)
}

// ReplaceMember makes one node a member, then takes another out. With from equal to to the
// member is rebuilt from the others.
func (o *Operator) ReplaceMember(ctx context.Context, q id.QueueUID, from, to id.NodeID, report func(operation.Progress)) error {
	return o.changeOne(ctx, catalog.BeginMemberChange{UID: q, Join: to, Leave: from}, nil, report)
}

// changeOne has one change of a queue's members carried out, and waits for its end. size computes the wanted number
// of members from the queue's record; nil keeps the wanted number.
func (o *Operator) changeOne(
	ctx context.Context, begin catalog.BeginMemberChange, size func(*catalog.QueueRecord) int, report func(operation.Progress),
) error {
	if report == nil {
		report = func(operation.Progress) {}
	}
	ctx, release := o.operationContext(ctx)
	defer release()
	id, err := o.beginChange(ctx, begin, size, report)
	if err != nil || id == 0 {
		return err
	}
	if err := o.awaitChange(ctx, begin.UID, id, report); err != nil {
		return errors.Join(err, o.cancelChange(ctx, begin.UID, id))
	}
	return o.changed(ctx, begin, id)
}

// operationContext ends an operation with the node.
func (o *Operator) operationContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(o.cfg.Life, cancel)
	return ctx, func() { release(); cancel() }
}

// beginChange writes the change into the catalog as soon as no other one is in progress. It returns the change's id,
// 0 if there is nothing to change.
func (o *Operator) beginChange(
	ctx context.Context, begin catalog.BeginMemberChange, size func(*catalog.QueueRecord) int, report func(operation.Progress),
) (uint64, error) {
	for {
		changed := o.cfg.Views.Next()
		r, ok := o.cfg.Views.View().QueueByUID(begin.UID)
		if !ok {
			return 0, fmt.Errorf("%w: queue %s is not in this node's view of the catalog", traffic.ErrNoSuchQueue, begin.UID)
		}
		g := r.Change
		same := g != nil && g.Join == begin.Join && g.Leave == begin.Leave
		if g == nil && isSo(r, begin) {
			return 0, nil
		}
		if g == nil || same {
			if size != nil {
				begin.Size = size(r)
			}
			reply, err := o.cfg.Catalog.Propose(ctx, &begin)
			r, ok := o.cfg.Views.View().QueueByUID(begin.UID)
			switch {
			case err == nil && reply.Created:
				return reply.Index, nil
			case err == nil && ok && r.Change != nil && r.Change.Join == begin.Join && r.Change.Leave == begin.Leave:
				return r.Change.ID, nil
			case deleted(err):
				return 0, fmt.Errorf("%w: queue %s: %w", traffic.ErrNoSuchQueue, begin.UID, err)
			case err != nil && (ctx.Err() != nil || !ok || r.Change == nil):
				return 0, err
			}
			continue // another was first, or it is over already
		}
		report(operation.Progress{Phase: PhaseWait, Detail: fmt.Sprintf("queue %q in vhost %q: another change goes on: %s", r.Name, r.VHost, g)})
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// deleted reports whether the catalog refused a change because the queue is gone, which this node's view need not show yet.
func deleted(err error) bool {
	var refused *catalog.Error
	return errors.As(err, &refused) && refused.Code == catalog.CodeNotFound && refused.Kind == "queue"
}

// isSo reports whether a queue's members are already what a change would make them.
func isSo(r *catalog.QueueRecord, b catalog.BeginMemberChange) bool {
	if b.Join == b.Leave {
		return false
	}
	joined := b.Join == "" || slices.Contains(r.Members, b.Join)
	left := b.Leave == "" || !slices.Contains(r.Members, b.Leave)
	return joined && left
}

// awaitChange reports the progress of a change until it is over.
func (o *Operator) awaitChange(ctx context.Context, q id.QueueUID, change uint64, report func(operation.Progress)) error {
	tick := time.NewTicker(operationTick)
	defer tick.Stop()
	for {
		changed := o.cfg.Views.Next()
		r, ok := o.cfg.Views.View().QueueByUID(q)
		switch {
		case !ok:
			return fmt.Errorf("%w: queue %s was deleted", traffic.ErrNoSuchQueue, q)
		case r.Change == nil || r.Change.ID != change:
			return nil
		}
		p := o.changeProgress(ctx, r)
		if p.Detail != "" {
			p.Detail = fmt.Sprintf("queue %q in vhost %q: %s", r.Name, r.VHost, p.Detail)
		}
		report(p)
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changeProgress asks the members for the progress of the change; the leader knows it.
func (o *Operator) changeProgress(ctx context.Context, r *catalog.QueueRecord) operation.Progress {
	for _, n := range r.Members {
		if _, up := o.cfg.Transport.Connected(n); !up && n != o.cfg.Node {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, memberTimeout)
		s, err := o.cfg.Leaders.StatusAt(ctx, n, r.UID)
		cancel()
		if g := s.GetChange(); err == nil && g.GetId() == r.Change.ID {
			return operation.Progress{Phase: g.GetPhase(), Done: g.GetDone(), Total: g.GetTotal(), Unit: g.GetUnit(), Detail: g.GetDetail()}
		}
	}
	return operation.Progress{Phase: PhaseWait, Detail: "no leader carries the change out yet"}
}

// cancelChange asks the queue's leader to take back what has not taken effect.
func (o *Operator) cancelChange(ctx context.Context, q id.QueueUID, change uint64) error {
	if ctx.Err() == nil || o.cfg.Life.Err() != nil {
		return nil // it continues without this node
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if _, err := o.cfg.Catalog.Propose(ctx, &catalog.CancelMemberChange{UID: q, Change: change}); err != nil {
		return fmt.Errorf("the change of queue %s could not be cancelled and goes on: %w", q, err)
	}
	return nil
}

// errTakenBack marks a change that ended without effect.
var errTakenBack = errors.New("cluster: the change of members was taken back")

// changed checks that a change that is over has taken effect.
func (o *Operator) changed(ctx context.Context, b catalog.BeginMemberChange, change uint64) error {
	r, ok := o.cfg.Views.View().QueueByUID(b.UID)
	switch {
	case !ok:
		return fmt.Errorf("%w: queue %s was deleted", traffic.ErrNoSuchQueue, b.UID)
	case b.Join == b.Leave && o.isOlder(ctx, b, change),
		b.Join != "" && !slices.Contains(r.Members, b.Join),
		b.Leave != "" && b.Leave != b.Join && slices.Contains(r.Members, b.Leave):
		return fmt.Errorf("%w: queue %q in vhost %q: its members are %q; the logs of its members' nodes say why",
			errTakenBack, r.Name, r.VHost, r.Members)
	}
	return nil
}

// isOlder reports whether the member that a change was to rebuild reports that it is older than the change. The
// queue's list of members does not show that. A member that does not answer does not count as older.
func (o *Operator) isOlder(ctx context.Context, b catalog.BeginMemberChange, change uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	s, err := o.cfg.Leaders.StatusAt(ctx, b.Join, b.UID)
	return err == nil && s.GetJoined() < change
}
