package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// quotas are the gates of this node: where publishers wait that are above a rate, or whose vhost, or the declarer of
// whose queues, holds too much (VH-14 to VH-17). There is a gate for what has such a limit and was published to here, none else.
type quotas struct {
	b     *Broker
	start time.Time
	kick  chan struct{} // of capacity 1: there is something for exchange to do at once
	nodes atomic.Int64  // of the cluster
	// byPolicy reports that a policy bounds the rates of queues, byDeclarer that a user's queues are bounded in what
	// they hold, rated that one of these is so, was so, or that an argument bounds a rate.
	byPolicy, byDeclarer, rated atomic.Bool

	mu       sync.Mutex // taken before a gate's
	gates    map[clients.QuotaSubject]*gate
	queues   map[id.QueueUID]queueGate
	policies map[string]ratedPolicies // by vhost; of exchange alone

	figures quotaFigures
}

// queueGate is what was found for a queue in the view of an index; a nil gate: it has no rate, a nil declarer:
// what holds it is no user's with a limit of that.
type queueGate struct {
	index          uint64
	gate, declarer *gate
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

// user returns the gate of a user, nil if nothing bounds what it publishes and what its queues hold.
func (q *quotas) user(v *catalog.View, name string) *gate {
	u, ok := v.User(name)
	if !ok || u.MaxMessageRate == catalog.Unlimited && u.MaxByteRate == catalog.Unlimited && u.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return q.gate(clients.QuotaSubject{User: name}, v.Index(), gateLimits{[rates]int64{u.MaxMessageRate, u.MaxByteRate}, u.MaxStoredBytes})
}

// declarer returns the gate of a user if it bounds what the queues hold that the user has declared.
func (q *quotas) declarer(v *catalog.View, name string) *gate {
	if u, ok := v.User(name); !ok || u.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return q.user(v, name)
}

// vhost returns the gate of a vhost, nil if nothing bounds what is published there.
func (q *quotas) vhost(v *catalog.View, name string) *gate {
	h, ok := v.VHost(name)
	if !ok || h.MaxMessageRate == catalog.Unlimited && h.MaxByteRate == catalog.Unlimited && h.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return q.gate(clients.QuotaSubject{VHost: name}, v.Index(), gateLimits{[rates]int64{h.MaxMessageRate, h.MaxByteRate}, h.MaxStoredBytes})
}

// of returns the gate of a subject, nil if nothing bounds it.
func (q *quotas) of(v *catalog.View, s clients.QuotaSubject) *gate {
	switch {
	case s.User != "":
		return q.user(v, s.User)
	case s.VHost != "":
		return q.vhost(v, s.VHost)
	}
	return q.queue(v, s.Queue).gate
}

// queue returns the gates that a message passes for a queue that it is published into.
func (q *quotas) queue(v *catalog.View, uid id.QueueUID) queueGate {
	q.mu.Lock()
	known, ok := q.queues[uid]
	q.mu.Unlock()
	if ok && known.index == v.Index() {
		return known
	}
	rec, ok := v.QueueByUID(uid)
	if !ok {
		return queueGate{}
	}
	of := q.b.policies.InForce(v, rec).Quotas
	found := queueGate{index: v.Index()}
	if of.MaxMessageRate != catalog.Unlimited || of.MaxByteRate != catalog.Unlimited {
		found.gate = q.gate(clients.QuotaSubject{Queue: uid}, v.Index(), gateLimits{[rates]int64{of.MaxMessageRate, of.MaxByteRate}, catalog.Unlimited})
	}
	if u, ok := v.DeclarerOf(rec); ok {
		found.declarer = q.declarer(v, u.Name)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queues[uid] = found
	return found
}

// gate returns that of a subject, with the limits of the view of an index.
func (q *quotas) gate(of clients.QuotaSubject, index uint64, l gateLimits) *gate {
	q.mu.Lock()
	g := q.gates[of]
	if g == nil {
		g = &gate{q: q, of: of, others: map[id.NodeID]wanted{}}
		g.limits = gateLimits{[rates]int64{catalog.Unlimited, catalog.Unlimited}, catalog.Unlimited}
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
		if q.of(v, g.of) == nil && !g.newer(v.Index()) {
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

// lookUsers finds out whether a user's queues are bounded in what they hold.
func (q *quotas) lookUsers(v *catalog.View) {
	is := false
	for u := range v.Users() {
		is = is || u.MaxStoredBytes != catalog.Unlimited
	}
	if q.byDeclarer.Store(is); is {
		q.rated.Store(true)
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
		e.Name, e.Detail = of.User, connections.ScopeName(connections.ScopeUser)
	case of.VHost != "":
		e.VHost, e.Name, e.Detail = of.VHost, of.VHost, connections.ScopeName(connections.ScopeVHost)
	default:
		r, ok := q.b.view().QueueByUID(of.Queue)
		if !ok {
			return
		}
		e.VHost, e.Name, e.Detail = r.VHost, r.Name, connections.ScopeName(connections.ScopeQueue)
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
			m.Sender.gates.note(b.quotas.queue(v, uid))
		}
	}
	return m.Sender.AwaitQuotas(ctx, m.VHost, giveUp)
}
