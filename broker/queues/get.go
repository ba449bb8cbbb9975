package queues

import (
	"context"

	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
)

// Get returns a queue with its figures, or without them if no leader can be reached in time.
func (qs *Queues) Get(ctx context.Context, vhost, name string) (Queue, error) {
	c := qs.cluster
	rec, err := qs.visibleQueue(ctx, vhost, name)
	if err != nil {
		return Queue{}, err
	}
	q := qs.describe(c.View(), rec)
	qs.addFigures(ctx, c, rec, &q)
	return q, ctx.Err()
}

// Describe is Get without figures. It makes no call to another node.
func (qs *Queues) Describe(ctx context.Context, vhost, name string) (Queue, error) {
	rec, err := qs.visibleQueue(ctx, vhost, name)
	if err != nil {
		return Queue{}, err
	}
	return qs.describe(qs.view(), rec), nil
}

// visibleQueue looks up a queue that the caller may see (VH-12).
func (qs *Queues) visibleQueue(ctx context.Context, vhost, name string) (*catalog.QueueRecord, error) {
	if err := qs.permissions.PermitSight(ctx, permission.Queue(vhost, name)); err != nil {
		return nil, err
	}
	if names.IsReply(name) { // AM-3
		return nil, serving.NoQueue(vhost, name)
	}
	return serving.LookUp(qs.view(), vhost, name)
}
