package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// DeclareQueue places a new queue on size nodes, this one among them if it can be (RE-1), on this one
// alone if it is not durable, and returns when it has a leader with its configuration in force. If the
// queue exists, the catalog decides about equivalence. A queue that gets no leader in time stays, for
// others may have its messages confirmed already: the error is traffic.ErrNotLed, the reply the catalog's.
func (o *Operator) DeclareQueue(ctx context.Context, d catalog.DeclareQueue, size int, balanced bool) (catalog.Reply, error) {
	ctx, cancel := wait.Within(ctx, o.cfg.Life, o.cfg.CommandTimeout)
	defer cancel()
	r, made, err := o.enter(ctx, &d, size, balanced)
	if err != nil || !made {
		return r, err
	}
	if err := o.awaitLed(ctx, r.UID); err != nil {
		return r, fmt.Errorf("%w: %w", traffic.ErrNotLed, err)
	}
	return r, nil
}

// DeclareUnnamed is DeclareQueue for a name that this node has made up. No client knows it yet, so a queue
// that gets no leader in time is deleted again: its client could neither use nor delete it.
func (o *Operator) DeclareUnnamed(ctx context.Context, d catalog.DeclareQueue, size int, balanced bool) (catalog.Reply, error) {
	ctx, cancel := wait.Within(ctx, o.cfg.Life, o.cfg.CommandTimeout)
	defer cancel()
	r, made, err := o.enter(ctx, &d, size, balanced)
	if err != nil || !made {
		return r, err
	}
	// What is left of the time is for the delete.
	starting := ctx
	if end, bounded := ctx.Deadline(); bounded {
		var stop context.CancelFunc
		starting, stop = context.WithDeadline(ctx, end.Add(-time.Until(end)/undeclareShare))
		defer stop()
	}
	if err := o.awaitLed(starting, r.UID); err != nil {
		if stays := o.undeclare(ctx, &d, r.UID); stays != nil {
			return r, fmt.Errorf("%w: %w; it could not be deleted again: %w", traffic.ErrNotLed, err, stays)
		}
		return catalog.Reply{}, err
	}
	return r, nil
}

// enter enters a queue into the catalog, and reports whether this call made it: the first of two
// attempts may have, whose answer was lost.
func (o *Operator) enter(ctx context.Context, d *catalog.DeclareQueue, size int, balanced bool) (r catalog.Reply, made bool, err error) {
	for {
		changed := o.cfg.Views.Next()
		if err := o.cfg.Placer.place(d, size, balanced); err != nil {
			return catalog.Reply{}, false, err
		}
		r, err = o.cfg.Catalog.Propose(ctx, d)
		if !misplaced(err) {
			return r, r.Created || r.Repeated, err
		}
		select { // until this node's view shows which node was taken out of the cluster
		case <-changed:
		case <-ctx.Done():
			return r, false, fmt.Errorf("%w: queue %q cannot be placed: %v", traffic.ErrUnavailable, d.Name, err) //nolint:errorlint // it is not the caller's fault
		}
	}
}

// firstLeader is how long a declaration waits for this node to lead, before it asks all members for the leader: the
// first campaign mostly takes a few milliseconds, and nobody else campaigns before that.
const firstLeader = 500 * time.Millisecond

// awaitLed returns when a new queue has a leader with its configuration in force. That should mostly be
// this node, which knows the moment it leads; others have to be asked again and again.
func (o *Operator) awaitLed(ctx context.Context, uid id.QueueUID) error {
	if r, there := o.cfg.Views.View().QueueByUID(uid); there && r.Leader == o.cfg.Node {
		first, stop := context.WithTimeout(ctx, firstLeader)
		defer stop()
		if o.cfg.Members.AwaitLed(first, uid) == nil {
			return nil
		}
	}
	_, err := o.cfg.Leaders.Status(ctx, uid)
	return err
}

// misplaced reports whether the catalog refused a queue because of the nodes that were chosen for it.
func misplaced(err error) bool {
	var refused *catalog.Error
	return errors.As(err, &refused) && refused.Code == catalog.CodePreconditionFailed && refused.Kind == "queue" && refused.Arg == "members"
}

const (
	// undeclareShare is the part of the time of a declaration, one in so many, that is
	// kept for deleting what it made.
	undeclareShare = 5
	// undeclareLeast is how long that is tried even if the caller has given up.
	undeclareLeast = time.Second
)

// undeclare deletes a queue that got no leader, and that nobody else knows.
func (o *Operator) undeclare(ctx context.Context, d *catalog.DeclareQueue, uid id.QueueUID) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), undeclareLeast)
		defer cancel()
	}
	_, err := o.cfg.Catalog.Propose(ctx, &catalog.DeleteQueue{VHost: d.VHost, Name: d.Name, UID: uid})
	return err
}
