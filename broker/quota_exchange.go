package broker

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

const (
	// exchangeEvery is the time between two rounds in which nodes tell each other what they publish.
	exchangeEvery = time.Second
	// exchangeLeast is the least time between two that are asked for.
	exchangeLeast = 200 * time.Millisecond
	// storedFor is how long a sum over the queues of vhosts is used again.
	storedFor = 500 * time.Millisecond
	// maxSubjects bounds one round; those beyond keep the parts that they have.
	maxSubjects = 4096
)

// exchange keeps the gates up to date until ctx ends: with the limits of the catalog, with what other nodes
// want, and with what vhosts hold. It does nothing while no gate is used.
func (q *quotas) exchange(ctx context.Context, c *cluster.Cluster) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // of a time of measurement
	for {
		changed := c.ViewChanged()
		v := c.View()
		nodes := int64(0)
		for range v.Nodes() {
			nodes++
		}
		q.nodes.Store(max(1, nodes))
		q.lookPolicies(v)
		q.prune(v)
		next := time.Since(last) >= exchangeEvery
		if next {
			last = time.Now()
		}
		if q.round(ctx, c, v, next) {
			timer.Reset(exchangeEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(exchangeLeast):
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-q.kick:
		case <-timer.C:
		}
	}
}

// round asks the other nodes about the gates that are used; again: there are some.
func (q *quotas) round(ctx context.Context, c *cluster.Cluster, v *catalog.View, next bool) (again bool) {
	now := q.now()
	var gates []*gate
	var subjects []cluster.QuotaSubject
	var own []cluster.QuotaFigures
	for _, g := range q.all() {
		again = g.settle(now) || again
		f, active := g.figuresNow(now, next)
		if !active || len(gates) == maxSubjects {
			continue
		}
		if g.limitsStored() {
			f.StoredBytes = q.storedHere(v, g.of.VHost)
		}
		gates, subjects, own = append(gates, g), append(subjects, g.of), append(own, f)
	}
	if len(gates) == 0 {
		return again
	}
	stored := make([]uint64, len(gates))
	for i := range own {
		stored[i] = own[i].StoredBytes
	}
	for n, figures := range c.Quotas(ctx, subjects, own) {
		for i, f := range figures {
			stored[i] += f.StoredBytes
			gates[i].learn(q.now(), n, f)
		}
	}
	for i, g := range gates {
		g.holding(q.now(), stored[i])
	}
	return true
}

// Quotas takes what another node wants, and returns what this one does and its queues hold; for
// cluster.Config.Quotas.
func (b *Broker) Quotas(from id.NodeID, subjects []cluster.QuotaSubject, figures []cluster.QuotaFigures) []cluster.QuotaFigures {
	q := b.quotas
	out := make([]cluster.QuotaFigures, len(subjects))
	v := b.view()
	if v == nil {
		return out
	}
	for i, of := range subjects {
		if g := q.known(of); g != nil {
			out[i], _ = g.figuresNow(q.now(), false)
			g.learn(q.now(), from, figures[i])
		}
		if h, ok := v.VHost(of.VHost); ok && h.MaxStoredBytes != Unlimited {
			out[i].StoredBytes = q.storedHere(v, of.VHost)
		}
	}
	return out
}

// storedBytes are what the queues that this node leads hold of each vhost with a limit of it: one
// sum is for all who ask in a short time. mu guards the rest.
type storedBytes struct {
	mu  sync.Mutex
	at  time.Duration
	of  map[string]uint64
	any bool
}

// storedHere returns what the queues of a vhost hold that this node leads, however they hold it.
func (q *quotas) storedHere(v *catalog.View, vhost string) uint64 {
	s := &q.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	now := q.now()
	if _, known := s.of[vhost]; s.any && known && now-s.at < storedFor {
		return s.of[vhost]
	}
	s.of, s.at, s.any = map[string]uint64{}, now, true
	for h := range v.VHosts() {
		if h.MaxStoredBytes != Unlimited {
			s.of[h.Name] = 0
		}
	}
	for x := range q.b.LedQueues() {
		if n, limited := s.of[x.VHost]; limited {
			o := x.Figures
			s.of[x.VHost] = n + o.ReadyBytes + o.UnsettledBytes + o.DelayedBytes + o.BacklogBytes
		}
	}
	return s.of[vhost]
}
