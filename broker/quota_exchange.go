package broker

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clients"
)

const (
	// exchangeEvery is the time between two rounds in which nodes tell each other what they publish.
	exchangeEvery = time.Second
	// exchangeLeast is the least time between two that are asked for.
	exchangeLeast = 200 * time.Millisecond
	// maxSubjects bounds the gates of one question; a round asks as often as it takes.
	maxSubjects = 4096
	// pruneEvery is the least time between two looks for gates that are not needed: each takes long where there are many,
	// and publishers see to their own.
	pruneEvery = 10 * time.Second
)

// exchange keeps the gates up to date until ctx ends: with the limits of the catalog, with what other nodes
// want, and with what vhosts and users' queues hold. It does nothing while no gate is used.
func (q *quotas) exchange(ctx context.Context, c *cluster.Cluster) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // of a time of measurement
	var pruned pruned
	for {
		changed := c.ViewChanged()
		v := c.View()
		nodes := int64(0)
		for range v.Nodes() {
			nodes++
		}
		q.nodes.Store(max(1, nodes))
		q.lookPolicies(v)
		q.lookUsers(v)
		later := q.pruneNow(v, &pruned)
		next := time.Since(last) >= exchangeEvery
		if next {
			last = time.Now()
		}
		if q.round(ctx, c, next) {
			timer.Reset(exchangeEvery)
		} else if later > 0 {
			timer.Reset(later)
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

// pruned is the last look for gates that are not needed.
type pruned struct {
	index uint64 // of the view
	at    time.Duration
	ever  bool
}

// pruneNow prunes if the view is newer than that of the last time, and that was a while ago; later: how long it must wait.
func (q *quotas) pruneNow(v *catalog.View, last *pruned) (later time.Duration) {
	now := q.now()
	if last.ever && v.Index() == last.index {
		return 0
	}
	if wait := pruneEvery - (now - last.at); last.ever && wait > 0 {
		return wait
	}
	*last = pruned{v.Index(), now, true}
	q.prune(v)
	return 0
}

// round asks the other nodes about the gates that are used; again: there are some.
func (q *quotas) round(ctx context.Context, c *cluster.Cluster, next bool) (again bool) {
	now := q.now()
	var gates []*gate
	var subjects []clients.QuotaSubject
	var own []clients.QuotaFigures
	for _, g := range q.all() {
		again = g.settle(now) || again
		f, active := g.figuresNow(now, next)
		if !active {
			continue
		}
		if g.limitsStored() {
			f.StoredBytes = c.StoredBytes(g.of)
		}
		gates, subjects, own = append(gates, g), append(subjects, g.of), append(own, f)
	}
	for from := 0; from < len(gates); from += maxSubjects {
		to := min(from+maxSubjects, len(gates))
		q.ask(ctx, c, gates[from:to], subjects[from:to], own[from:to])
	}
	return again || len(gates) > 0
}

// ask asks the other nodes about some gates, and tells them what this one wants.
func (q *quotas) ask(ctx context.Context, c *cluster.Cluster, gates []*gate, subjects []clients.QuotaSubject, own []clients.QuotaFigures) {
	stored := make([]uint64, len(gates))
	for i := range own {
		stored[i] = own[i].StoredBytes
	}
	for n, figures := range c.AllClients().Quotas(ctx, subjects, own) {
		for i, f := range figures {
			stored[i] += f.StoredBytes
			gates[i].Learn(n, f)
		}
	}
	for i, g := range gates {
		g.holding(q.now(), stored[i])
	}
}
