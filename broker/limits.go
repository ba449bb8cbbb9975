package broker

import (
	"context"
	"strconv"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

// countOf is something that a limit bounds (VH-4).
type countOf struct {
	kind  countKind
	name  string      // of the user or vhost
	queue id.QueueUID // of a queue, which has no name then
}

type countKind uint8

const (
	userConnections countKind = iota
	userChannels
	userConsumers
	vhostConnections
	vhostChannels
	vhostConsumers
	queueConsumers
	countKinds
)

// of returns what the limit is of, and its name.
func (k countKind) of() (scope int, limit string) {
	switch k {
	case userConnections:
		return scopeUser, limitConnections
	case userChannels:
		return scopeUser, limitChannels
	case userConsumers:
		return scopeUser, limitConsumers
	case vhostConnections:
		return scopeVHost, limitConnections
	case vhostChannels:
		return scopeVHost, limitChannels
	case vhostConsumers:
		return scopeVHost, limitConsumers
	case queueConsumers, countKinds:
	}
	return scopeQueue, limitConsumers
}

// limit returns how many there may be; Unlimited: any number.
func (b *Broker) limit(v *catalog.View, k countOf) int64 {
	scope, name := k.kind.of()
	var all []catalog.NamedLimit
	switch scope {
	case scopeUser:
		if u, ok := v.User(k.name); ok {
			all = u.NamedLimits()
		}
	case scopeVHost:
		if h, ok := v.VHost(k.name); ok {
			all = h.NamedLimits()
		}
	default:
		if r, ok := v.QueueByUID(k.queue); ok {
			return b.effective(v, r).Quotas.MaxConsumers
		}
	}
	for _, l := range all {
		if l.Name == name {
			return l.Value
		}
	}
	return Unlimited
}

func (k countOf) refused(v *catalog.View, limit int64) *Error {
	scope, name := k.kind.of()
	e := &Error{Class: NotAllowed, Kind: scopeName(scope), Name: k.name, Arg: name, Value: strconv.FormatInt(limit, 10), Problem: ProblemLimit}
	switch scope {
	case scopeVHost:
		e.VHost = k.name
	case scopeQueue:
		if r, ok := v.QueueByUID(k.queue); ok {
			e.VHost, e.Name = r.VHost, r.Name
		}
	}
	e.Reason = "so many are there already; end some, or have the limit raised"
	return e
}

// add returns how many there are then.
func (s *connections) add(k countOf, n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addLocked(k, n)
}

func (s *connections) addLocked(k countOf, n int64) int64 {
	if s.count[k] += n; s.count[k] == 0 {
		delete(s.count, k)
	}
	return s.count[k]
}

func (s *connections) of(k countOf) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[k]
}

// Usage is what this node has of a user, of a vhost and of a queue; for cluster.Config.Usage.
func (b *Broker) Usage(user, vhost string, queue id.QueueUID) cluster.Usage {
	s := b.connections
	return cluster.Usage{
		UserConnections: s.of(countOf{kind: userConnections, name: user}), UserChannels: s.of(countOf{kind: userChannels, name: user}),
		UserConsumers:    s.of(countOf{kind: userConsumers, name: user}),
		VHostConnections: s.of(countOf{kind: vhostConnections, name: vhost}), VHostChannels: s.of(countOf{kind: vhostChannels, name: vhost}),
		VHostConsumers: s.of(countOf{kind: vhostConsumers, name: vhost}), QueueConsumers: s.of(countOf{kind: queueConsumers, queue: queue}),
	}
}

// admit counts one more, unless that is above its limit, over all nodes that answer. It
// counts first, so that of two that come to two nodes at the same time none is taken
// rather than both.
func (b *Broker) admit(ctx context.Context, k countOf) error {
	n := b.connections.add(k, 1)
	v := b.view()
	if v == nil {
		return nil
	}
	limit := b.limit(v, k)
	if limit == Unlimited {
		return nil
	}
	if cl := b.cluster.Load(); cl != nil && n <= limit {
		n += b.elsewhere(ctx, cl, k)
	}
	if n <= limit {
		return nil
	}
	b.connections.add(k, -1)
	e := k.refused(v, limit)
	b.quotas.refused(k, limit)
	if who, err := b.Who(ctx); err == nil && who != nil {
		e.User = who.User()
	}
	return e
}

// elsewhere returns how many there are on the other nodes.
func (b *Broker) elsewhere(ctx context.Context, cl *cluster.Cluster, k countOf) int64 {
	user, vhost := k.name, ""
	if scope, _ := k.kind.of(); scope == scopeVHost {
		user, vhost = "", k.name
	}
	u := cl.UsageElsewhere(ctx, user, vhost, k.queue)
	return [...]int64{
		u.UserConnections, u.UserChannels, u.UserConsumers, u.VHostConnections, u.VHostChannels, u.VHostConsumers, u.QueueConsumers,
	}[k.kind]
}

// enter counts a connection towards something, once, and tells whether it just did.
func (b *Broker) enter(ctx context.Context, c *Connection, k countOf) (first bool, err error) {
	if c == nil || k.name == "" {
		return false, nil
	}
	known := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.counts[k]
	}
	if known() {
		return false, nil
	}
	c.entering.Lock() // its calls do not stand in each other's way
	defer c.entering.Unlock()
	if known() {
		return false, nil
	}
	if err := b.admit(ctx, k); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended { // meanwhile
		b.connections.add(k, -1)
		return false, nil
	}
	c.counts[k] = true
	return true, nil
}

// EnterUser counts the context's connection as one of the user that calls by it; it is
// refused above the user's limit (VH-4). A connection counts once, until it ends; first tells that
// it does from now on.
func (b *Broker) EnterUser(ctx context.Context) (first bool, err error) {
	who, err := b.Who(ctx)
	if err != nil || who == nil {
		return false, err
	}
	return b.enter(ctx, connectionOf(ctx), countOf{kind: userConnections, name: who.User()})
}

// EnterVHost counts the context's connection as one of the vhost, if that exists (VH-4).
func (b *Broker) EnterVHost(ctx context.Context, vhost string) error {
	v := b.view()
	if v == nil {
		return nil
	}
	if _, exists := v.VHost(vhost); !exists {
		return nil
	}
	_, err := b.enter(ctx, connectionOf(ctx), countOf{kind: vhostConnections, name: vhost})
	return err
}

// OpenVHost tells whether the caller may use a vhost at all, as one that opens a connection
// to it asks: NotAllowed if there is none, it has no permission there, or its limit is
// reached.
func (b *Broker) OpenVHost(ctx context.Context, vhost string) error {
	v, err := b.viewOf("")
	if err != nil {
		return err
	}
	if _, ok := v.VHost(vhost); !ok {
		return &Error{Class: NotAllowed, VHost: vhost, Kind: "vhost", Name: vhost, Problem: ProblemVHostMissing, Reason: "does not exist"}
	}
	who, err := b.Who(ctx)
	if err != nil {
		return err
	}
	if who != nil {
		if _, err := b.permission(v, who, vhost); err != nil {
			return err
		}
	}
	return b.EnterVHost(ctx, vhost)
}

// OpenChannel counts one more channel of the caller, which is a stream over gRPC; it is
// refused above the user's limit (VH-4). closed takes it back.
func (b *Broker) OpenChannel(ctx context.Context) (closed func(), err error) {
	who, err := b.Who(ctx)
	if err != nil {
		return nil, err
	}
	if who == nil {
		return func() {}, nil
	}
	return b.admitAll(ctx, []countOf{{kind: userChannels, name: who.User()}})
}

// OpenChannelIn counts one more channel of a vhost, if that exists, in the same way.
func (b *Broker) OpenChannelIn(ctx context.Context, vhost string) (closed func(), err error) {
	if v := b.view(); v != nil {
		if _, exists := v.VHost(vhost); exists {
			return b.admitAll(ctx, []countOf{{kind: vhostChannels, name: vhost}})
		}
	}
	return func() {}, nil
}

// openConsumer counts one more consumer of the caller, of the vhost and of the queue, as OpenChannel does.
func (b *Broker) openConsumer(ctx context.Context, vhost string, queue id.QueueUID) (closed func(), err error) {
	who, err := b.Who(ctx)
	if err != nil {
		return nil, err
	}
	all := []countOf{{kind: vhostConsumers, name: vhost}, {kind: queueConsumers, queue: queue}}
	if who != nil {
		all = append(all, countOf{kind: userConsumers, name: who.User()})
	}
	return b.admitAll(ctx, all)
}

// admitAll counts one more of each, or of none. closed takes them back, once.
func (b *Broker) admitAll(ctx context.Context, all []countOf) (closed func(), err error) {
	for i, k := range all {
		if err := b.admit(ctx, k); err != nil {
			for _, k := range all[:i] {
				b.connections.add(k, -1)
			}
			return nil, err
		}
	}
	return sync.OnceFunc(func() {
		for _, k := range all {
			b.connections.add(k, -1)
		}
	}), nil
}
