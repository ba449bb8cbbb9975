package limits

import (
	"context"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
)

// Usage is a limit and how much of it is used, over all nodes that answer (VH-4, VH-14).
type Usage struct {
	Name     string
	Limit    int64   // catalog.Unlimited: none
	Used     float64 // for a rate: how much was published in the last second
	Measured bool    // false: Used is not known, because there is no limit
}

// VHostUsage returns the limits of a vhost and how much of each is used. Only callers who may see the whole vhost may
// call it (VH-12). Errors: NotFound.
func (l *Limits) VHostUsage(ctx context.Context, vhost string) ([]Usage, error) {
	if err := l.permissions.WholeSight(ctx, vhost); err != nil {
		return nil, err
	}
	v, err := l.serving.ViewOf("")
	if err != nil {
		return nil, err
	}
	h, ok := v.VHost(vhost)
	if !ok {
		about := administration.AboutVHost(vhost)
		about.Class, about.Reason = failure.NotFound, "does not exist"
		return nil, &about
	}
	return l.usages(ctx, v, clients.QuotaSubject{VHost: vhost}, h.NamedLimits()), nil
}

// UserUsage returns the limits of a user and how much of each is used. Errors: NotFound.
func (l *Limits) UserUsage(ctx context.Context, user string) ([]Usage, error) {
	if err := l.logins.Require(ctx, identity.TagAdministrator); err != nil {
		return nil, err
	}
	v, err := l.serving.ViewOf("")
	if err != nil {
		return nil, err
	}
	u, ok := v.User(user)
	if !ok {
		about := administration.AboutUser(user)
		about.Class, about.Reason = failure.NotFound, "does not exist"
		return nil, &about
	}
	return l.usages(ctx, v, clients.QuotaSubject{User: user}, u.NamedLimits()), nil
}

// usages adds to the limits of a user or vhost how much of each is used. For open connections, channels and consumers
// and for stored bytes this is the sum over all nodes; for queues it is the number in the view.
func (l *Limits) usages(ctx context.Context, v *catalog.View, of clients.QuotaSubject, bounds []catalog.NamedLimit) []Usage {
	open, there := l.clients.Usage(of.User, of.VHost, 0), l.everywhere.UsageElsewhere(ctx, of.User, of.VHost, 0)
	flow := l.published(ctx, of)
	out := make([]Usage, len(bounds))
	for i, bound := range bounds {
		x := Usage{Name: bound.Name, Limit: bound.Value, Measured: true}
		switch bound.Name {
		case Connections:
			x.Used = float64(open.UserConnections + there.UserConnections + open.VHostConnections + there.VHostConnections)
		case Channels:
			x.Used = float64(open.UserChannels + there.UserChannels + open.VHostChannels + there.VHostChannels)
		case Consumers:
			x.Used = float64(open.UserConsumers + there.UserConsumers + open.VHostConsumers + there.VHostConsumers)
		case Queues:
			if x.Used = float64(v.QueueCountIn(of.VHost)); of.User != "" {
				x.Used = float64(v.QueueCountOf(of.User))
			}
		case MessageRate:
			x.Used, x.Measured = flow.PublishedMessages, bound.Value != catalog.Unlimited
		case ByteRate:
			x.Used, x.Measured = flow.PublishedBytes, bound.Value != catalog.Unlimited
		case StoredBytes:
			x.Used, x.Measured = float64(flow.StoredBytes), bound.Value != catalog.Unlimited
		}
		out[i] = x
	}
	return out
}

// published returns the figures of a subject, summed over all nodes.
func (l *Limits) published(ctx context.Context, of clients.QuotaSubject) (sum clients.QuotaFigures) {
	if g := l.known(of); g != nil {
		sum, _ = g.figuresNow(l.now(), false)
	}
	sum.StoredBytes = l.node.StoredBytes(of)
	for _, figures := range l.everywhere.ExchangeQuotas(ctx, []clients.QuotaSubject{of}, []clients.QuotaFigures{sum}) {
		sum.PublishedMessages += figures[0].PublishedMessages
		sum.PublishedBytes += figures[0].PublishedBytes
		sum.StoredBytes += figures[0].StoredBytes
	}
	return sum
}
