package broker

import (
	"context"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clients"
)

// LimitUsage is a limit with what is used of it, over all nodes that answer (VH-4, VH-14).
type LimitUsage struct {
	Name     string
	Limit    int64   // catalog.Unlimited: none
	Used     float64 // of a rate what was published in the last second
	Measured bool    // false: Used is not known, since there is no limit
}

// VHostUsage returns the limits of a vhost with what is used of each, for those who see all of it (VH-12).
// Errors: NotFound.
func (b *Broker) VHostUsage(ctx context.Context, vhost string) ([]LimitUsage, error) {
	if err := b.Permissions.WholeSight(ctx, vhost); err != nil {
		return nil, err
	}
	v, err := b.Serving.ViewOf("")
	if err != nil {
		return nil, err
	}
	h, ok := v.VHost(vhost)
	if !ok {
		about := administration.AboutVHost(vhost)
		about.Class, about.Reason = failure.NotFound, "does not exist"
		return nil, &about
	}
	return b.usages(ctx, v, clients.QuotaSubject{VHost: vhost}, h.NamedLimits()), nil
}

// UserUsage returns the limits of a user with what is used of each. Errors: NotFound.
func (b *Broker) UserUsage(ctx context.Context, user string) ([]LimitUsage, error) {
	if err := b.Logins.Require(ctx, identity.TagAdministrator); err != nil {
		return nil, err
	}
	v, err := b.Serving.ViewOf("")
	if err != nil {
		return nil, err
	}
	u, ok := v.User(user)
	if !ok {
		about := administration.AboutUser(user)
		about.Class, about.Reason = failure.NotFound, "does not exist"
		return nil, &about
	}
	return b.usages(ctx, v, clients.QuotaSubject{User: user}, u.NamedLimits()), nil
}

func (b *Broker) usages(ctx context.Context, v *catalog.View, of clients.QuotaSubject, limits []catalog.NamedLimit) []LimitUsage {
	open, there := b.clients.Usage(of.User, of.VHost, 0), b.cluster.AllClients().UsageElsewhere(ctx, of.User, of.VHost, 0)
	flow := b.quotas.published(ctx, b.cluster, of)
	out := make([]LimitUsage, len(limits))
	for i, l := range limits {
		x := LimitUsage{Name: l.Name, Limit: l.Value, Measured: true}
		switch l.Name {
		case connections.LimitConnections:
			x.Used = float64(open.UserConnections + there.UserConnections + open.VHostConnections + there.VHostConnections)
		case connections.LimitChannels:
			x.Used = float64(open.UserChannels + there.UserChannels + open.VHostChannels + there.VHostChannels)
		case connections.LimitConsumers:
			x.Used = float64(open.UserConsumers + there.UserConsumers + open.VHostConsumers + there.VHostConsumers)
		case argMaxQueues:
			if x.Used = float64(v.QueueCountIn(of.VHost)); of.User != "" {
				x.Used = float64(v.QueueCountOf(of.User))
			}
		case connections.LimitMessageRate:
			x.Used, x.Measured = flow.PublishedMessages, l.Value != catalog.Unlimited
		case connections.LimitByteRate:
			x.Used, x.Measured = flow.PublishedBytes, l.Value != catalog.Unlimited
		case connections.LimitStoredBytes:
			x.Used, x.Measured = float64(flow.StoredBytes), l.Value != catalog.Unlimited
		}
		out[i] = x
	}
	return out
}

// published returns the figures of a subject over all nodes.
func (q *quotas) published(ctx context.Context, cl *cluster.Cluster, of clients.QuotaSubject) (sum clients.QuotaFigures) {
	if g := q.known(of); g != nil {
		sum, _ = g.figuresNow(q.now(), false)
	}
	sum.StoredBytes = cl.StoredBytes(of)
	for _, figures := range cl.AllClients().Quotas(ctx, []clients.QuotaSubject{of}, []clients.QuotaFigures{sum}) {
		sum.PublishedMessages += figures[0].PublishedMessages
		sum.PublishedBytes += figures[0].PublishedBytes
		sum.StoredBytes += figures[0].StoredBytes
	}
	return sum
}
