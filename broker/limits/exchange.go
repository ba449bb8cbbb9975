package limits

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
)

const (
	// exchangeEvery is the time between two rounds in which nodes exchange what their clients publish.
	exchangeEvery = time.Second
	// exchangeLeast is the least time between two that are asked for.
	exchangeLeast = 200 * time.Millisecond
	// maxSubjects bounds the gates of one question; a round asks as often as it takes.
	maxSubjects = 4096
	// pruneEvery is the least time between two looks for gates that are not needed: each takes long where there are many,
	// and publishers see to their own.
	pruneEvery = 10 * time.Second
)

// Exchange keeps the gates up to date until ctx ends: with the limits of the catalog, with what other nodes
// want, and with what vhosts and users' queues hold. It does nothing while no gate is used.
func (l *Limits) Exchange(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // of a time of measurement
	var pruned pruned
	for {
		changed := l.node.ViewChanged()
		v := l.view()
		nodes := int64(0)
		for range v.Nodes() {
			nodes++
		}
		l.nodes.Store(max(1, nodes))
		l.lookPolicies(v)
		l.lookUsers(v)
		later := l.pruneNow(v, &pruned)
		next := time.Since(last) >= exchangeEvery
		if next {
			last = time.Now()
		}
		if l.round(ctx, next) {
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
		case <-l.kick:
		case <-timer.C:
		}
	}
}

// pruned is the last look for gates that are not needed. The zero value has had none.
type pruned struct {
	index uint64 // of the view
	at    time.Duration
	ever  bool
}

// pruneNow prunes if the view is newer than that of the last time, and that was pruneEvery ago; later is how long a newer
// view still has to wait, 0 if none does.
func (l *Limits) pruneNow(v *catalog.View, last *pruned) (later time.Duration) {
	now := l.now()
	if last.ever && v.Index() == last.index {
		return 0
	}
	if wait := pruneEvery - (now - last.at); last.ever && wait > 0 {
		return wait
	}
	*last = pruned{v.Index(), now, true}
	l.prune(v)
	return 0
}

// round asks the other nodes about the gates that are used, and begins another time of measurement if next; again reports
// that another round is needed without being kicked.
func (l *Limits) round(ctx context.Context, next bool) (again bool) {
	now := l.now()
	var gates []*gate
	var subjects []clients.QuotaSubject
	var own []clients.QuotaFigures
	for _, g := range l.all() {
		again = g.settle(now) || again
		f, active := g.figuresNow(now, next)
		if !active {
			continue
		}
		if g.limitsStored() {
			f.StoredBytes = l.node.StoredBytes(g.of)
		}
		gates, subjects, own = append(gates, g), append(subjects, g.of), append(own, f)
	}
	for from := 0; from < len(gates); from += maxSubjects {
		to := min(from+maxSubjects, len(gates))
		l.ask(ctx, gates[from:to], subjects[from:to], own[from:to])
	}
	return again || len(gates) > 0
}

// ask has the other nodes answer about some gates, and sends them what this one wants. The three slices are parallel.
func (l *Limits) ask(ctx context.Context, gates []*gate, subjects []clients.QuotaSubject, own []clients.QuotaFigures) {
	stored := make([]uint64, len(gates))
	for i := range own {
		stored[i] = own[i].StoredBytes
	}
	for n, figures := range l.everywhere.Quotas(ctx, subjects, own) {
		for i, f := range figures {
			stored[i] += f.StoredBytes
			gates[i].Learn(n, f)
		}
	}
	for i, g := range gates {
		g.holding(l.now(), stored[i])
	}
}
