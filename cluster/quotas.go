package cluster

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// Quotas tells the other nodes this node's figures of subjects, and returns theirs. Those that do not
// answer within 2 s are left out.
func (c *Cluster) Quotas(ctx context.Context, subjects []clients.QuotaSubject, own []clients.QuotaFigures) map[id.NodeID][]clients.QuotaFigures {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	request := &nodev1.QuotasRequest{Node: string(c.cfg.Node), Figures: quotaFiguresToProto(own)}
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

// Quotas answers for this node.
func (s calls) Quotas(_ context.Context, r *nodev1.QuotasRequest) (*nodev1.QuotasResponse, error) {
	figures := quotaFigures(r.GetFigures())
	if len(figures) != len(r.GetSubjects()) {
		return &nodev1.QuotasResponse{}, nil
	}
	own := make([]clients.QuotaFigures, len(figures))
	for i, x := range r.GetSubjects() {
		of := clients.QuotaSubject{User: x.GetUser(), VHost: x.GetVhost(), Queue: id.QueueUID(x.GetQueue())}
		own[i] = s.c.clients.Exchange(of, id.NodeID(r.GetNode()), figures[i])
		own[i].StoredBytes = s.c.StoredBytes(of)
	}
	return &nodev1.QuotasResponse{Figures: quotaFiguresToProto(own)}, nil
}

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

// storedFor is how long a sum over queues is used again.
const storedFor = 500 * time.Millisecond

// storedBytes are what the queues that this node leads hold of each vhost and user with a limit of it: one
// sum is for all who ask in a short time. mu guards the rest.
type storedBytes struct {
	mu sync.Mutex
	at time.Duration // of the monotonic clock
	of map[clients.QuotaSubject]uint64
}

// limitsStored tells whether something bounds what the queues of a vhost, or those that a user has declared, hold.
func limitsStored(v *catalog.View, of clients.QuotaSubject) bool {
	if of.User != "" {
		u, ok := v.User(of.User)
		return ok && u.MaxStoredBytes != catalog.Unlimited
	}
	h, ok := v.VHost(of.VHost)
	return ok && h.MaxStoredBytes != catalog.Unlimited
}

// StoredBytes returns what the queues hold that this node leads of a vhost, or of those that a user has declared,
// however they hold it; 0 if nothing bounds it. It may be half a second old.
func (c *Cluster) StoredBytes(of clients.QuotaSubject) uint64 {
	v := c.View()
	if !limitsStored(v, of) {
		return 0
	}
	s := &c.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.clock.Elapsed()
	if n, known := s.of[of]; known && now-s.at < storedFor {
		return n
	}
	s.of, s.at = storedSums(v, c.LedFigures()), now
	return s.of[of]
}

// storedSums adds up what queues hold, for each vhost and user with a limit of it.
func storedSums(v *catalog.View, queues iter.Seq2[id.QueueUID, *quorumq.Overview]) map[clients.QuotaSubject]uint64 {
	sums := map[clients.QuotaSubject]uint64{}
	for h := range v.VHosts() {
		if of := (clients.QuotaSubject{VHost: h.Name}); limitsStored(v, of) {
			sums[of] = 0
		}
	}
	for u := range v.Users() {
		if of := (clients.QuotaSubject{User: u.Name}); limitsStored(v, of) {
			sums[of] = 0
		}
	}
	for uid, o := range queues {
		r, ok := v.QueueByUID(uid)
		if !ok {
			continue
		}
		holds := o.ReadyBytes + o.UnsettledBytes + o.DelayedBytes + o.BacklogBytes
		add := func(of clients.QuotaSubject) {
			if n, limited := sums[of]; limited {
				sums[of] = n + holds
			}
		}
		add(clients.QuotaSubject{VHost: r.VHost})
		if u, ok := v.DeclarerOf(r); ok {
			add(clients.QuotaSubject{User: u.Name})
		}
	}
	return sums
}

// EmitQuota tells that a quota bounds clients of this node, or does not any more. It does not wait.
func (c *Cluster) EmitQuota(e event.Event) {
	c.events.EmitNode(e)
	c.log.Info("event", "kind", string(e.Kind), "vhost", e.VHost, "name", e.Name, "cause", e.Cause, "detail", e.Detail, "count", e.Count)
}
