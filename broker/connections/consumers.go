package connections

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
)

// Consumers returns the consumers of clients of all nodes, sorted by queue and age, and the nodes
// that did not answer. If vhost or queue is not empty, it returns only consumers of that vhost or
// queue. Only callers who may see the whole vhost may call it (VH-12).
func (cs *Connections) Consumers(ctx context.Context, vhost, queue string) (all []ConsumerInfo, silent []string, err error) {
	if err := cs.permissions.WholeSight(ctx, vhost); err != nil {
		return nil, nil, err
	}
	all, nodes, err := cs.everywhere.Consumers(ctx, vhost, queue)
	if err != nil {
		return nil, nil, failure.Translate(err, failure.Error{Kind: "consumers"})
	}
	slices.SortFunc(all, func(a, b ConsumerInfo) int {
		return cmp.Or(cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.SinceMs, b.SinceMs),
			cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.Tag, b.Tag))
	})
	return all, id.Names(nodes), nil
}

// ConsumerInfo is what operators see of a client's consumer.
type ConsumerInfo = clients.ConsumerInfo
