package queues

import (
	"context"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster/gateway"
)

// Find looks up a queue and returns the gateway's end of it. It refuses a queue that belongs to another connection
//
func (qs *Queues) Find(ctx context.Context, vhost, name string) (*gateway.Queue, failure.Error, error) {
	about := failure.Error{VHost: vhost, Kind: "queue", Name: name}
	c := qs.cluster
	rec, err := serving.LookUp(c.View(), vhost, name)
	if err != nil {
		return nil, about, err
	}
	if err := qs.connections.PermitOwner(ctx, rec); err != nil {
		return nil, about, err
	}
	q, err := c.Gateway().Queue(rec.UID)
	return q, about, failure.Translate(err, about)
}

// ToRead is Find with a check that the caller may read from the queue (VH-6).
func (qs *Queues) ToRead(ctx context.Context, vhost, name string) (*gateway.Queue, failure.Error, error) {
	if err := qs.permissions.Permit(ctx, permission.Queue(vhost, name), permission.Read); err != nil {
		return nil, failure.Error{}, err
	}
	return qs.Find(ctx, vhost, name)
}
