package limits

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
)

const (
	// exchangeEvery is the interval at which nodes exchange how much their clients publish.
	exchangeEvery = time.Second
	// exchangeLeast is the shortest interval, when a round is asked for.
	exchangeLeast = 200 * time.Millisecond
	// maxSubjects limits the gates in one request. A round makes as many requests as it needs.
	maxSubjects = 4096
	// pruneEvery is the shortest interval at which unneeded gates are searched for. A search takes long if there are
	// many gates, and publishers check the gates that they use themselves.
	pruneEvery = 10 * time.Second
)

// Exchange keeps the gates up to date until ctx ends: with the limits in the catalog, with what other nodes want to
// publish, and with what vhosts and queues of users hold. It does nothing while no gate is in use.
func (l *Limits) Exchange(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time // when the last measuring period began
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

// pruned describes the last search for unneeded gates. The zero value stands for none.
type pruned struct {
	index uint64 // of the view
	at    time.Duration
	ever  bool
}

// pruneNow prunes if the view is newer than at the last search, and that search is pruneEvery ago. later is how long
// pruning must wait if only the time is missing, else 0.
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

// round asks the other nodes about the gates in use. With next it also begins the next measuring period. again reports
// whether another round is needed even if nobody asks for one.
func (l *Limits) round(ctx context.Context, next bool) (again bool) {
	now := l.now()
	var gates []*gate
	var subjects []clients.QuotaSubject
	var own []clients.QuotaFigures
	for _, g := range l.all() {
		again = g.endEpisodes(now) || again
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

// ask sends the other nodes what this node wants for some gates, and takes in their answers. The three slices are
// parallel.
func (l *Limits) ask(ctx context.Context, gates []*gate, subjects []clients.QuotaSubject, own []clients.QuotaFigures) {
	stored := make([]uint64, len(gates))
	for i := range own {
		stored[i] = own[i].StoredBytes
	}
	for n, figures := range l.everywhere.ExchangeQuotas(ctx, subjects, own) {
		for i, f := range figures {
			stored[i] += f.StoredBytes
			gates[i].Learn(n, f)
		}
	}
	for i, g := range gates {
		g.holding(l.now(), stored[i])
	}
}
