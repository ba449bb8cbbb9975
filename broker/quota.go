package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// quotas are the gates of this node: where publishers wait that are above a rate, or whose vhost holds
// too much (VH-14, VH-15). There is a gate for what has such a limit and was published to here, none else.
type quotas struct {
	b     *Broker
	start time.Time
	kick  chan struct{} // of capacity 1: there is something for exchange to do at once
	nodes atomic.Int64  // of the cluster
	// byPolicy tells that a policy bounds the rates of queues, rated that this or an argument does.
	byPolicy, rated atomic.Bool

	mu       sync.Mutex // taken before a gate's
	gates    map[clients.QuotaSubject]*gate
	queues   map[id.QueueUID]queueGate
	policies map[string]ratedPolicies // by vhost; of exchange alone

	figures quotaFigures
}

// queueGate is what was found for a queue in the view of an index; a nil gate: it has no rate.
type queueGate struct {
	index uint64
	gate  *gate
}

type ratedPolicies struct {
	set   catalog.PolicySet
	rated bool
}

func newQuotas(b *Broker) *quotas {
	q := &quotas{
		b: b, start: time.Now(), kick: make(chan struct{}, 1), gates: map[clients.QuotaSubject]*gate{},
		queues: map[id.QueueUID]queueGate{}, policies: map[string]ratedPolicies{},
	}
	q.nodes.Store(1)
	return q
}

// now is what has gone by of the monotonic clock.
func (q *quotas) now() time.Duration { return time.Since(q.start) }

func (q *quotas) wake() {
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// user returns the gate of a user, nil if nothing bounds what it publishes.
func (q *quotas) user(v *catalog.View, name string) *gate {
	u, ok := v.User(name)
	if !ok || u.MaxMessageRate == Unlimited && u.MaxByteRate == Unlimited {
		return nil
	}
	return q.gate(clients.QuotaSubject{User: name}, v.Index(), gateLimits{[rates]int64{u.MaxMessageRate, u.MaxByteRate}, Unlimited})
}

// vhost returns the gate of a vhost, nil if nothing bounds what is published there.
func (q *quotas) vhost(v *catalog.View, name string) *gate {
	h, ok := v.VHost(name)
	if !ok || h.MaxMessageRate == Unlimited && h.MaxByteRate == Unlimited && h.MaxStoredBytes == Unlimited {
		return nil
	}
	return q.gate(clients.QuotaSubject{VHost: name}, v.Index(), gateLimits{[rates]int64{h.MaxMessageRate, h.MaxByteRate}, h.MaxStoredBytes})
}

// queue returns the gate of a queue, nil if no rate bounds what is published into it.
func (q *quotas) queue(v *catalog.View, uid id.QueueUID) *gate {
	q.mu.Lock()
	known, ok := q.queues[uid]
	q.mu.Unlock()
	if ok && known.index == v.Index() {
		return known.gate
	}
	rec, ok := v.QueueByUID(uid)
	if !ok {
		return nil
	}
	of := q.b.policies.InForce(v, rec).Quotas
	found := queueGate{index: v.Index()}
	if of.MaxMessageRate != Unlimited || of.MaxByteRate != Unlimited {
		found.gate = q.gate(clients.QuotaSubject{Queue: uid}, v.Index(), gateLimits{[rates]int64{of.MaxMessageRate, of.MaxByteRate}, Unlimited})
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queues[uid] = found
	return found.gate
}

// gate returns that of a subject, with the limits of the view of an index.
func (q *quotas) gate(of clients.QuotaSubject, index uint64, l gateLimits) *gate {
	q.mu.Lock()
	g := q.gates[of]
	if g == nil {
		g = &gate{q: q, of: of, others: map[id.NodeID]wanted{}}
		g.limits = gateLimits{[rates]int64{Unlimited, Unlimited}, Unlimited}
		q.gates[of] = g
		q.b.clients.OpenGate(of, g)
	}
	q.mu.Unlock()
	g.limit(q.now(), index, l)
	return g
}

// known returns the gate of a subject that there is.
func (q *quotas) known(of clients.QuotaSubject) *gate {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gates[of]
}

// all returns the gates there are.
func (q *quotas) all() []*gate {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]*gate, 0, len(q.gates))
	for _, g := range q.gates {
		out = append(out, g)
	}
	return out
}

// prune forgets gates of what has no such limit any more, and what was found for queues that are gone.
func (q *quotas) prune(v *catalog.View) {
	for _, g := range q.all() {
		var still *gate
		switch {
		case g.of.User != "":
			still = q.user(v, g.of.User)
		case g.of.VHost != "":
			still = q.vhost(v, g.of.VHost)
		default:
			still = q.queue(v, g.of.Queue)
		}
		if still == nil && !g.newer(v.Index()) {
			q.mu.Lock()
			delete(q.gates, g.of)
			q.b.clients.CloseGate(g.of)
			q.mu.Unlock()
			g.retire()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for uid := range q.queues {
		if _, there := v.QueueByUID(uid); !there {
			delete(q.queues, uid)
		}
	}
}

// lookPolicies finds out whether policies bound the rates of queues.
func (q *quotas) lookPolicies(v *catalog.View) {
	is := false
	next := make(map[string]ratedPolicies, len(q.policies))
	for h := range v.VHosts() {
		set := v.PolicySet(h.Name)
		p, ok := q.policies[h.Name]
		if !ok || p.set != set {
			p = ratedPolicies{set, policy.PoliciesRate(v, h.Name)}
		}
		next[h.Name] = p
		is = is || p.rated
	}
	q.policies = next
	if q.byPolicy.Store(is); is {
		q.rated.Store(true)
	}
}

// tell has operators see that a quota is reached, or not any more.
func (q *quotas) tell(kind event.Kind, of clients.QuotaSubject, limit string, n int64) {
	e := event.Event{Kind: kind, Cause: limit, Count: uint64(max(0, n))}
	switch {
	case of.User != "":
		e.Name, e.Detail = of.User, scopeName(scopeUser)
	case of.VHost != "":
		e.VHost, e.Name, e.Detail = of.VHost, of.VHost, scopeName(scopeVHost)
	default:
		r, ok := q.b.view().QueueByUID(of.Queue)
		if !ok {
			return
		}
		e.VHost, e.Name, e.Detail = r.VHost, r.Name, scopeName(scopeQueue)
	}
	q.b.tellQuota(e)
}

// AwaitQuotas waits until a single message may be published, as Sender.AwaitQuotas does; it looks
// also at the queues that the message is for.
func (b *Broker) AwaitQuotas(ctx context.Context, m *Publish, giveUp func() bool) error {
	if err := m.Sender.AwaitQuotas(ctx, m.VHost, giveUp); err != nil || !b.quotas.rated.Load() {
		return err
	}
	p := newPublishing(b)
	_, err := p.prepare(ctx, m)
	if v := b.view(); err == nil { // else Publish will tell
		for _, uid := range p.uids {
			if g := b.quotas.queue(v, uid); g != nil {
				m.Sender.gates.note(g)
			}
		}
	}
	return m.Sender.AwaitQuotas(ctx, m.VHost, giveUp)
}
