// Package limits holds publishers back that are above a rate, or whose vhost, or the declarer of whose queues,
// stores too much (VH-14 to VH-17); it counts what limits refuse, and shows how much of them is used (VH-4). How long a
// publisher waits is computed by package quota. Limits may be used concurrently; errors are of package failure.
package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// Node is what it takes of a node's part of the cluster; see *cluster.Cluster.
type Node interface {
	ViewChanged() <-chan struct{}
	StoredBytes(clients.QuotaSubject) uint64
}

// Everywhere is what the clients of all nodes want and have open; see *peer.Clients.
type Everywhere interface {
	Quotas(ctx context.Context, of []clients.QuotaSubject, own []clients.QuotaFigures) map[id.NodeID][]clients.QuotaFigures
	UsageElsewhere(ctx context.Context, user, vhost string, queue id.QueueUID) clients.Usage
}

// Config is what limits are made of.
type Config struct {
	Node       Node
	Everywhere Everywhere
	View       func() *catalog.View
	// Clients are those of this node; other nodes hear of its gates by them.
	Clients     *clients.Registry
	Policies    *policy.Matcher
	Serving     *serving.Node
	Logins      *identity.Logins
	Permissions *permission.Permissions
	// Emit takes the events of quotas that are reached, or not any more. It must not block.
	Emit func(event.Event)
}

// Limits are the gates of this node, where publishers wait. There is a gate for each user, vhost and queue that has
// such a limit and was published by, or to, on this node. All methods may be called concurrently.
type Limits struct {
	node        Node
	everywhere  Everywhere
	view        func() *catalog.View
	clients     *clients.Registry
	policies    *policy.Matcher
	serving     *serving.Node
	logins      *identity.Logins
	permissions *permission.Permissions
	figures
	sharing

	// byPolicy reports that a policy bounds the rates of queues, byDeclarer that a user's queues are bounded in what
	// they hold, rated that one of these is so, was so, or that an argument bounds a rate.
	byPolicy, byDeclarer, rated atomic.Bool

	mu    sync.Mutex // taken before a gate's
	gates map[clients.QuotaSubject]*gate
	found map[id.QueueUID]queueGates

	rates map[string]ratedPolicies // by vhost; of the goroutine of Exchange alone
}

// queueGates are those found for a queue in the view of an index. A nil gate: the queue has no rate; a nil declarer:
// no user's limit of stored bytes counts what the queue holds.
type queueGates struct {
	index          uint64
	gate, declarer *gate
}

// ratedPolicies remembers for a set of policies whether one of them bounds a rate: sets change seldom, and are large.
type ratedPolicies struct {
	set   catalog.PolicySet
	rated bool
}

// New returns the limits of a node. Exchange is to be run beside.
func New(c Config) *Limits {
	l := &Limits{
		node: c.Node, everywhere: c.Everywhere, view: c.View, clients: c.Clients, policies: c.Policies, serving: c.Serving,
		logins: c.Logins, permissions: c.Permissions,
		figures: figures{start: time.Now(), view: c.View, emit: c.Emit}, sharing: sharing{kick: make(chan struct{}, 1)}, gates: map[clients.QuotaSubject]*gate{},
		found: map[id.QueueUID]queueGates{}, rates: map[string]ratedPolicies{},
	}
	l.nodes.Store(1)
	return l
}

// user returns the gate of a user, nil if nothing bounds what it publishes and what its queues hold.
func (l *Limits) user(v *catalog.View, name string) *gate {
	u, ok := v.User(name)
	if !ok || u.MaxMessageRate == catalog.Unlimited && u.MaxByteRate == catalog.Unlimited && u.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return l.gate(clients.QuotaSubject{User: name}, v.Index(), gateLimits{[rates]int64{u.MaxMessageRate, u.MaxByteRate}, u.MaxStoredBytes})
}

// declarer returns the gate of a user if it bounds what the queues hold that the user has declared.
func (l *Limits) declarer(v *catalog.View, name string) *gate {
	if u, ok := v.User(name); !ok || u.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return l.user(v, name)
}

// vhost returns the gate of a vhost, nil if nothing bounds what is published there.
func (l *Limits) vhost(v *catalog.View, name string) *gate {
	h, ok := v.VHost(name)
	if !ok || h.MaxMessageRate == catalog.Unlimited && h.MaxByteRate == catalog.Unlimited && h.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return l.gate(clients.QuotaSubject{VHost: name}, v.Index(), gateLimits{[rates]int64{h.MaxMessageRate, h.MaxByteRate}, h.MaxStoredBytes})
}

// QueueRated notes that the arguments of a queue bound the rate at which it is published into (VH-15).
func (l *Limits) QueueRated() { l.rated.Store(true) }

// MayBoundQueues reports whether anything bounds, or has bounded, what is published into a queue or what the queues of
// a user hold.
func (l *Limits) MayBoundQueues() bool { return l.rated.Load() }

// BoundsQueues reports whether a policy bounds the rate of a queue, or a user's limit what its queues hold.
func (l *Limits) BoundsQueues() bool { return l.byPolicy.Load() || l.byDeclarer.Load() }

// of returns the gate of a subject, nil if nothing bounds it.
func (l *Limits) of(v *catalog.View, s clients.QuotaSubject) *gate {
	switch {
	case s.User != "":
		return l.user(v, s.User)
	case s.VHost != "":
		return l.vhost(v, s.VHost)
	}
	return l.queue(v, s.Queue).gate
}

// queue returns the gates that a message passes for a queue that it is published into.
func (l *Limits) queue(v *catalog.View, uid id.QueueUID) queueGates {
	l.mu.Lock()
	known, ok := l.found[uid]
	l.mu.Unlock()
	if ok && known.index == v.Index() {
		return known
	}
	rec, ok := v.QueueByUID(uid)
	if !ok {
		return queueGates{}
	}
	of := l.policies.InForce(v, rec).Quotas
	found := queueGates{index: v.Index()}
	if of.MaxMessageRate != catalog.Unlimited || of.MaxByteRate != catalog.Unlimited {
		found.gate = l.gate(clients.QuotaSubject{Queue: uid}, v.Index(), gateLimits{[rates]int64{of.MaxMessageRate, of.MaxByteRate}, catalog.Unlimited})
	}
	if u, ok := v.DeclarerOf(rec); ok {
		found.declarer = l.declarer(v, u.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found[uid] = found
	return found
}

// gate returns the gate of a subject, opened if need be, with the limits of the view of an index.
func (l *Limits) gate(of clients.QuotaSubject, index uint64, bounds gateLimits) *gate {
	l.mu.Lock()
	g := l.gates[of]
	if g == nil {
		g = &gate{figures: &l.figures, sharing: &l.sharing, of: of, others: map[id.NodeID]wanted{}}
		g.limits = gateLimits{[rates]int64{catalog.Unlimited, catalog.Unlimited}, catalog.Unlimited}
		l.gates[of] = g
		l.clients.OpenGate(of, g)
	}
	l.mu.Unlock()
	g.limit(l.now(), index, bounds)
	return g
}

// known returns the open gate of a subject, nil if there is none.
func (l *Limits) known(of clients.QuotaSubject) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gates[of]
}

// all returns the open gates.
func (l *Limits) all() []*gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*gate, 0, len(l.gates))
	for _, g := range l.gates {
		out = append(out, g)
	}
	return out
}

// prune forgets gates of what has no such limit any more, and what was found for queues that are gone.
func (l *Limits) prune(v *catalog.View) {
	for _, g := range l.all() {
		if l.of(v, g.of) == nil && !g.newer(v.Index()) {
			l.mu.Lock()
			delete(l.gates, g.of)
			l.clients.CloseGate(g.of)
			l.mu.Unlock()
			g.retire()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid := range l.found {
		if _, there := v.QueueByUID(uid); !there {
			delete(l.found, uid)
		}
	}
}

// lookUsers sets byDeclarer.
func (l *Limits) lookUsers(v *catalog.View) {
	is := false
	for u := range v.Users() {
		is = is || u.MaxStoredBytes != catalog.Unlimited
	}
	if l.byDeclarer.Store(is); is {
		l.rated.Store(true)
	}
}

// lookPolicies sets byPolicy. It belongs to the goroutine of Exchange.
func (l *Limits) lookPolicies(v *catalog.View) {
	is := false
	next := make(map[string]ratedPolicies, len(l.rates))
	for h := range v.VHosts() {
		set := v.PolicySet(h.Name)
		p, ok := l.rates[h.Name]
		if !ok || p.set != set {
			p = ratedPolicies{set, policy.PoliciesRate(v, h.Name)}
		}
		next[h.Name] = p
		is = is || p.rated
	}
	l.rates = next
	if l.byPolicy.Store(is); is {
		l.rated.Store(true)
	}
}
