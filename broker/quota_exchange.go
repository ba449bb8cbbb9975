package broker

import (
	"context"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clients"
)

const (
	// exchangeEvery is the time between two rounds in which nodes tell each other what they publish.
	exchangeEvery = time.Second
	// exchangeLeast is the least time between two that are asked for.
	exchangeLeast = 200 * time.Millisecond
	// maxSubjects bounds one round; those beyond keep the parts that they have.
	maxSubjects = 4096
)

// exchange keeps the gates up to date until ctx ends: with the limits of the catalog, with what other nodes
// want, and with what vhosts and users' queues hold. It does nothing while no gate is used.
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
		q.lookUsers(v)
		q.prune(v)
		next := time.Since(last) >= exchangeEvery
		if next {
			last = time.Now()
		}
		if q.round(ctx, c, next) {
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
func (q *quotas) round(ctx context.Context, c *cluster.Cluster, next bool) (again bool) {
	now := q.now()
	var gates []*gate
	var subjects []clients.QuotaSubject
	var own []clients.QuotaFigures
	for _, g := range q.all() {
		again = g.settle(now) || again
		f, active := g.figuresNow(now, next)
		if !active || len(gates) == maxSubjects {
			continue
		}
		if g.limitsStored() {
			f.StoredBytes = c.StoredBytes(g.of)
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
	for n, figures := range c.AllClients().Quotas(ctx, subjects, own) {
		for i, f := range figures {
			stored[i] += f.StoredBytes
			gates[i].Learn(n, f)
		}
	}
	for i, g := range gates {
		g.holding(q.now(), stored[i])
	}
	return true
}
