// Package limits holds publishers back if they exceed a rate, or if too much is stored in their vhost or in the queues
// of one declarer (VH-14 to VH-17). It also counts what limits refuse, and shows how much of each limit is used (VH-4).
// Package quota computes how long a publisher waits. Limits may be used concurrently; errors are those of package
// failure.
package limits

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// Node is the part of *cluster.Cluster that this package needs; the methods are documented there.
type Node interface {
	ViewChanged() <-chan struct{}
	StoredBytes(clients.QuotaSubject) uint64
}

// Config has the parts of Limits.
type Config struct {
	Node       Node
	Everywhere *peer.Clients
	View       func() *catalog.View
	// Clients is the registry of this node, through which other nodes learn about its gates.
	Clients     *clients.Registry
	Policies    *policy.Matcher
	Serving     *serving.Node
	Logins      *identity.Logins
	Permissions *permission.Permissions
	// Emit is called when a quota is reached, and when it no longer is. It must not block.
	Emit func(event.Event)
}

// Limits holds the gates of this node, where publishers wait. A user, vhost or queue has a gate if it has such a limit
// and this node has published for it. All methods may be called concurrently.
type Limits struct {
	node        Node
	everywhere  *peer.Clients
	view        func() *catalog.View
	clients     *clients.Registry
	policies    *policy.Matcher
	serving     *serving.Node
	logins      *identity.Logins
	permissions *permission.Permissions
	figures
	sharing

	// byPolicy reports that a policy limits the rates of queues. byDeclarer reports that a user has a limit for what
	// its queues hold. rated reports that one of these is or was so, or that an argument limits a rate; it never
	// becomes false again.
	byPolicy, byDeclarer, rated atomic.Bool

	mu    sync.Mutex // guards gates and found; locked before a gate's mu
	gates map[clients.QuotaSubject]*gate
	found map[id.QueueUID]queueGates

	rates map[string]ratedPolicies // by vhost; only the goroutine of Exchange uses it
}

// queueGates are the gates of a queue, as found in the view with this index. gate is nil if the queue has no rate.
// declarer is nil if what the queue holds counts towards no user's limit.
type queueGates struct {
	index          uint64
	gate, declarer *gate
}

// ratedPolicies remembers whether a set of policies limits a rate, because sets are large but seldom change.
type ratedPolicies struct {
	set   catalog.PolicySet
	rated bool
}

// New returns the Limits of a node. The caller must also run Exchange.
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

// user returns the gate of a user, nil if the user has no limits for publishing or for what its queues hold.
func (l *Limits) user(v *catalog.View, name string) *gate {
	u, ok := v.User(name)
	if !ok || u.MaxMessageRate == catalog.Unlimited && u.MaxByteRate == catalog.Unlimited && u.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return l.gate(clients.QuotaSubject{User: name}, v.Index(), gateLimits{[rates]int64{u.MaxMessageRate, u.MaxByteRate}, u.MaxStoredBytes})
}

// declarer returns the gate of a user if the user has a limit for what the queues hold that it has declared.
func (l *Limits) declarer(v *catalog.View, name string) *gate {
	if u, ok := v.User(name); !ok || u.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return l.user(v, name)
}

// vhost returns the gate of a vhost, nil if the vhost has no limits for publishing.
func (l *Limits) vhost(v *catalog.View, name string) *gate {
	h, ok := v.VHost(name)
	if !ok || h.MaxMessageRate == catalog.Unlimited && h.MaxByteRate == catalog.Unlimited && h.MaxStoredBytes == catalog.Unlimited {
		return nil
	}
	return l.gate(clients.QuotaSubject{VHost: name}, v.Index(), gateLimits{[rates]int64{h.MaxMessageRate, h.MaxByteRate}, h.MaxStoredBytes})
}

// QueueRated records that there is a queue whose arguments limit the rate of publishing (VH-15).
func (l *Limits) QueueRated() { l.rated.Store(true) }

// MayBoundQueues reports whether anything limits, or ever limited, publishing to a queue or what a user's queues hold.
// While it is false, callers need not look for gates of queues.
func (l *Limits) MayBoundQueues() bool { return l.rated.Load() }

// BoundsQueues reports whether a policy limits the rate of a queue, or a user has a limit for what its queues hold.
func (l *Limits) BoundsQueues() bool { return l.byPolicy.Load() || l.byDeclarer.Load() }

// of returns the gate of a subject, nil if the subject has no limits.
func (l *Limits) of(v *catalog.View, s clients.QuotaSubject) *gate {
	switch {
	case s.User != "":
		return l.user(v, s.User)
	case s.VHost != "":
		return l.vhost(v, s.VHost)
	}
	return l.queue(v, s.Queue).gate
}

// queue returns the gates that a message into a queue passes.
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

// gate returns the gate of a subject, and opens it if necessary. bounds are the limits in the view with this index.
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

// known returns the open gate of a subject, or nil.
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

// prune removes gates whose subject has no limits any more, and queueGates of queues that were deleted.
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

// lookPolicies sets byPolicy. Only the goroutine of Exchange may call it.
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
