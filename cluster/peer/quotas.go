package peer

import (
	"context"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ExchangeQuotas sends the other nodes this node's figures of subjects, and returns theirs. Those that do not
// answer within 2 s are left out.
func (c *Clients) ExchangeQuotas(ctx context.Context, subjects []clients.QuotaSubject, own []clients.QuotaFigures) map[id.NodeID][]clients.QuotaFigures {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	request := &nodev1.QuotasRequest{Node: string(c.peers.Node), Figures: quotaFiguresToProto(own)}
	for _, s := range subjects {
		request.Subjects = append(request.Subjects, &nodev1.QuotaSubject{User: s.User, Vhost: s.VHost, Queue: uint64(s.Queue)})
	}
	all := map[id.NodeID][]clients.QuotaFigures{}
	_ = c.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		r, err := node.Quotas(ctx, request)
		if err != nil {
			return nil, err
		}
		return func() error {
			if f := quotaFigures(r.GetFigures()); len(f) == len(subjects) {
				all[n] = f
			}
			return nil
		}, nil
	}, func(id.NodeID) {})
	return all
}

// Quotas takes the figures of another node, and returns this one's.
func (c *Clients) Quotas(_ context.Context, r *nodev1.QuotasRequest) (*nodev1.QuotasResponse, error) {
	figures := quotaFigures(r.GetFigures())
	if len(figures) != len(r.GetSubjects()) {
		return &nodev1.QuotasResponse{}, nil
	}
	own := make([]clients.QuotaFigures, len(figures))
	for i, x := range r.GetSubjects() {
		of := clients.QuotaSubject{User: x.GetUser(), VHost: x.GetVhost(), Queue: id.QueueUID(x.GetQueue())}
		own[i] = c.own.Exchange(of, id.NodeID(r.GetNode()), figures[i])
		own[i].StoredBytes = c.stored(of)
	}
	return &nodev1.QuotasResponse{Figures: quotaFiguresToProto(own)}, nil
}

// quotaFigures keeps the order, by which both ends know whose figures they are.
func quotaFigures(all []*nodev1.QuotaFigures) []clients.QuotaFigures {
	out := make([]clients.QuotaFigures, len(all))
	for i, f := range all {
		out[i] = clients.QuotaFigures{
			Messages: f.GetMessages(), Bytes: f.GetBytes(), StoredBytes: f.GetStoredBytes(),
			PublishedMessages: f.GetPublishedMessages(), PublishedBytes: f.GetPublishedBytes(),
		}
	}
	return out
}

// quotaFiguresToProto keeps the order, by which both ends know whose figures they are.
func quotaFiguresToProto(all []clients.QuotaFigures) []*nodev1.QuotaFigures {
	out := make([]*nodev1.QuotaFigures, len(all))
	for i, f := range all {
		out[i] = &nodev1.QuotaFigures{
			Messages: f.Messages, Bytes: f.Bytes, StoredBytes: f.StoredBytes,
			PublishedMessages: f.PublishedMessages, PublishedBytes: f.PublishedBytes,
		}
	}
	return out
}
