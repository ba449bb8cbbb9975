package limits

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/quota"
)

const (
	// lookAgain is the longest wait before a publisher checks the limits again.
	lookAgain = 250 * time.Millisecond
	// reportedFor is how long the figures of another node count.
	reportedFor = 3 * time.Second
	// gateIdle is how long a gate must be unused before other nodes are no longer asked about it.
	gateIdle = 3 * time.Second
	// storedAgainPercent is the share of the limit below which stored bytes must fall before publishers continue.
	storedAgainPercent = 95
)

// gateLimits are the limits of a gate; catalog.Unlimited stands for none.
type gateLimits struct {
	rates  [rates]int64
	stored int64
}

// wanted is how much another node wants to publish for a subject, and when it reported that.
type wanted struct {
	rates [rates]float64
	at    time.Duration
}

// sharing lets the gates of a node divide their rates among the nodes: the gates ask Exchange for a round, and Exchange
// sets the number of nodes.
type sharing struct {
	kick  chan struct{} // of capacity 1: a token makes Exchange begin a round at once
	nodes atomic.Int64  // of the cluster
}

// wake makes Exchange begin a round. One token is enough, because a round looks at all gates.
func (s *sharing) wake() {
	wait.Wake(s.kick)
}

// gate is where publishers wait on this node: those of one user, or those into one vhost or queue. mu guards the fields
// below it.
type gate struct {
	figures *figures
	sharing *sharing
	of      clients.QuotaSubject

	mu      sync.Mutex
	index   uint64 // of the view that the limits come from
	limits  gateLimits
	buckets [rates]quota.Bucket
	meters  [rates]quota.Meter
	others  map[id.NodeID]wanted
	used    time.Duration // when a publisher asked or published last
	ever    bool
	holds   uint64 // bytes that the vhost, or the queues of the user, hold, as far as this node knows
	full    bool
	over    [gateQuotas]episode
}

// episode is a time in which a quota holds publishers back again and again. One event is emitted when it begins and one
// when it ends.
type episode struct {
	on   bool
	last time.Duration
}

// limit sets the limits of a view, unless the gate has those of a newer view.
func (g *gate) limit(now time.Duration, index uint64, l gateLimits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if index < g.index {
		return
	}
	if g.index = index; g.ever && l == g.limits {
		return
	}
	g.limits, g.ever = l, true
	g.share(now)
	g.weigh()
	g.sharing.wake()
}

// newer reports whether the limits come from a newer view than the one with this index.
func (g *gate) newer(index uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.index > index
}

// share computes this node's share of the rates. The caller holds mu.
func (g *gate) share(now time.Duration) {
	for i := range g.buckets {
		if g.limits.rates[i] == catalog.Unlimited {
			continue
		}
		var others []float64
		for n, w := range g.others {
			if now-w.at > reportedFor {
				delete(g.others, n)
				continue
			}
			others = append(others, w.rates[i])
		}
		own := g.meters[i].Wants(now.Seconds())
		g.buckets[i].SetRate(now, quota.Share(float64(g.limits.rates[i]), own, others, int(g.sharing.nodes.Load())))
	}
}

// weigh compares the stored bytes with their limit. The caller holds mu.
func (g *gate) weigh() {
	limit := g.limits.stored
	switch {
	case limit == catalog.Unlimited:
		g.full = false
	case g.full:
		g.full = float64(g.holds) >= float64(limit)*storedAgainPercent/100
	default:
		g.full = float64(g.holds) >= float64(limit)
	}
}

// use records that the gate is in use. If it was idle, the other nodes are asked about it at once. The caller holds mu.
func (g *gate) use(now time.Duration) {
	if g.used == 0 || now-g.used > gateIdle {
		g.sharing.wake()
	}
	g.used = now
}

// charge counts a message that was accepted.
func (g *gate) charge(now time.Duration, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.use(now)
	for i, n := range [rates]float64{1, float64(bytes)} {
		if g.limits.rates[i] != catalog.Unlimited {
			g.buckets[i].Take(now, n)
			g.meters[i].Add(n)
		}
	}
}

// wait returns how long a publisher must wait before it checks again, and for which quota; 0 stands for no wait. With
// storedOnly the rates are ignored.
func (g *gate) wait(now time.Duration, storedOnly bool) (d time.Duration, which int) {
	d, which, began, limit := g.waiting(now, storedOnly)
	if began {
		g.figures.reached[scopeOf(g.of)][which].Add(1)
		g.figures.emitQuota(event.QuotaReached, g.of, quotaName(which), limit)
	}
	return d, which
}

// waiting is wait without the event, which is emitted only after mu is released. began reports that the quota did not
// hold publishers back until now, limit is its value.
func (g *gate) waiting(now time.Duration, storedOnly bool) (d time.Duration, which int, began bool, limit int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.use(now)
	for i := range g.buckets {
		if storedOnly || g.limits.rates[i] == catalog.Unlimited {
			continue
		}
		wait := g.buckets[i].Wait(now)
		if wait == 0 {
			continue
		}
		if own := g.meters[i].Wants(now.Seconds()); !math.IsInf(own, 1) {
			g.sharing.wake() // another node may want less than its share
		}
		g.meters[i].Hold()
		if wait > d {
			d, which, limit = wait, i, g.limits.rates[i]
		}
	}
	if g.full {
		d, which, limit = lookAgain, storedQuota, g.limits.stored
	}
	if d == 0 {
		return 0, 0, false, 0
	}
	o := &g.over[which]
	began = !o.on
	o.on, o.last = true, now
	return min(d, lookAgain), which, began, limit
}

// figuresNow returns what this node wants to publish, and whether the gate is in use. With next it begins the next
// measuring period.
func (g *gate) figuresNow(now time.Duration, next bool) (f clients.QuotaFigures, active bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := now.Seconds()
	f.Messages, f.Bytes = g.meters[messageRate].Wants(at), g.meters[byteRate].Wants(at)
	f.PublishedMessages, f.PublishedBytes = g.meters[messageRate].Rate(at), g.meters[byteRate].Rate(at)
	active = g.used > 0 && now-g.used <= gateIdle || g.full
	if next {
		for i := range g.meters {
			g.meters[i].Next(at)
		}
	}
	return f, active
}

// Figures implements clients.QuotaGate.
func (g *gate) Figures() clients.QuotaFigures {
	f, _ := g.figuresNow(g.figures.now(), false)
	return f
}

// Learn implements clients.QuotaGate.
func (g *gate) Learn(from id.NodeID, f clients.QuotaFigures) {
	now := g.figures.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.others[from] = wanted{[rates]float64{f.Messages, f.Bytes}, now}
	g.share(now)
}

// holding sets how many bytes the vhost, or the queues of the user, hold.
func (g *gate) holding(now time.Duration, bytes uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = bytes
	g.share(now)
	g.weigh()
}

// limitsStored reports whether there is a limit for stored bytes.
func (g *gate) limitsStored() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limits.stored != catalog.Unlimited
}

// endEpisodes ends the episodes in which no publisher was held back for heldAgain, and reports whether others go on.
func (g *gate) endEpisodes(now time.Duration) (goOn bool) {
	var ended []int
	g.mu.Lock()
	for i := range g.over {
		o := &g.over[i]
		if i == storedQuota && g.full {
			o.last = now
		}
		if o.on && now-o.last > heldAgain {
			o.on = false
			ended = append(ended, i)
		}
		goOn = goOn || o.on
	}
	g.mu.Unlock()
	for _, i := range ended {
		g.figures.emitQuota(event.QuotaOver, g.of, quotaName(i), 0)
	}
	return goOn
}

// retire ends the episodes of a gate that no longer has limits.
func (g *gate) retire() {
	g.mu.Lock()
	over := g.over
	g.over = [gateQuotas]episode{}
	g.full = false
	g.mu.Unlock()
	for i := range over {
		if over[i].on {
			g.figures.emitQuota(event.QuotaOver, g.of, quotaName(i), 0)
		}
	}
}
