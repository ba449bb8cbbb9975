package cluster

import (
	"context"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// QuotaSubject is what a quota bounds: a user, a vhost or a queue, the others being empty (VH-14, VH-15).
type QuotaSubject struct {
	User, VHost string
	Queue       id.QueueUID
}

// QuotaFigures are those of a subject at one node.
type QuotaFigures struct {
	// Messages and Bytes are what the node's clients want to publish in a second, infinite if they are
	// held back.
	Messages, Bytes float64
	StoredBytes     uint64 // of the queues of a vhost that the node leads
	// PublishedMessages and PublishedBytes are what they published in the last second.
	PublishedMessages, PublishedBytes float64
}

// Quotas tells the other nodes this node's figures of subjects, and returns theirs. Those that do not
// answer within 2 s are left out.
func (c *Cluster) Quotas(ctx context.Context, subjects []QuotaSubject, own []QuotaFigures) map[id.NodeID][]QuotaFigures {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	request := &nodev1.QuotasRequest{Node: string(c.cfg.Node), Figures: quotaFiguresToProto(own)}
	for _, s := range subjects {
		request.Subjects = append(request.Subjects, &nodev1.QuotaSubject{User: s.User, Vhost: s.VHost, Queue: uint64(s.Queue)})
	}
	all := map[id.NodeID][]QuotaFigures{}
	_ = c.askOthers(ctx, func(ctx context.Context, n id.NodeID, peer nodev1.NodeClient) (func() error, error) {
		r, err := peer.Quotas(ctx, request)
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

// Quotas answers for this node.
func (s calls) Quotas(_ context.Context, r *nodev1.QuotasRequest) (*nodev1.QuotasResponse, error) {
	figures := quotaFigures(r.GetFigures())
	if s.c.cfg.Quotas == nil || len(figures) != len(r.GetSubjects()) {
		return &nodev1.QuotasResponse{}, nil
	}
	subjects := make([]QuotaSubject, len(r.GetSubjects()))
	for i, x := range r.GetSubjects() {
		subjects[i] = QuotaSubject{User: x.GetUser(), VHost: x.GetVhost(), Queue: id.QueueUID(x.GetQueue())}
	}
	own := s.c.cfg.Quotas(id.NodeID(r.GetNode()), subjects, figures)
	return &nodev1.QuotasResponse{Figures: quotaFiguresToProto(own)}, nil
}

func quotaFigures(all []*nodev1.QuotaFigures) []QuotaFigures {
	out := make([]QuotaFigures, len(all))
	for i, f := range all {
		out[i] = QuotaFigures{
			Messages: f.GetMessages(), Bytes: f.GetBytes(), StoredBytes: f.GetStoredBytes(),
			PublishedMessages: f.GetPublishedMessages(), PublishedBytes: f.GetPublishedBytes(),
		}
	}
	return out
}

func quotaFiguresToProto(all []QuotaFigures) []*nodev1.QuotaFigures {
	out := make([]*nodev1.QuotaFigures, len(all))
	for i, f := range all {
		out[i] = &nodev1.QuotaFigures{
			Messages: f.Messages, Bytes: f.Bytes, StoredBytes: f.StoredBytes,
			PublishedMessages: f.PublishedMessages, PublishedBytes: f.PublishedBytes,
		}
	}
	return out
}
