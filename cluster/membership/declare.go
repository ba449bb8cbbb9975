package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// DeclareQueue places a new queue on size nodes, this one among them if it can be (RE-1), on this one
// alone if it is not durable, and returns when it has a leader with its configuration in force. If the
// queue exists, the catalog decides about equivalence. A queue that gets no leader in time is deleted
// again (RE-1).
func (o *Operator) DeclareQueue(ctx context.Context, d catalog.DeclareQueue, size int, balanced bool) (catalog.Reply, error) {
	if err := o.cfg.Placer.place(&d, size, balanced); err != nil {
		return catalog.Reply{}, err
	}
	ctx, cancel := wait.Within(ctx, o.cfg.Life, o.cfg.CommandTimeout)
	defer cancel()
	r, err := o.cfg.Catalog.Propose(ctx, &d)
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
	if _, err := o.cfg.Leaders.Status(starting, r.UID); err != nil {
		return catalog.Reply{}, errors.Join(err, o.undeclare(ctx, &d, r.UID))
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

// undeclare deletes a queue that could not be started.
func (o *Operator) undeclare(ctx context.Context, d *catalog.DeclareQueue, uid id.QueueUID) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), undeclareLeast)
		defer cancel()
	}
	_, err := o.cfg.Catalog.Propose(ctx, &catalog.DeleteQueue{VHost: d.VHost, Name: d.Name, UID: uid})
	if err != nil {
		return fmt.Errorf("queue %q could not be started and remains: delete it: %w", d.Name, err)
	}
	return nil
}
