package broker

import (
	"context"
	"strconv"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
)

// limitOf returns what a limit is of, and its name.
func limitOf(k clients.CountKind) (scope int, limit string) {
	switch k {
	case clients.UserConnections:
		return scopeUser, limitConnections
	case clients.UserChannels:
		return scopeUser, limitChannels
	case clients.UserConsumers:
		return scopeUser, limitConsumers
	case clients.VHostConnections:
		return scopeVHost, limitConnections
	case clients.VHostChannels:
		return scopeVHost, limitChannels
	case clients.VHostConsumers:
		return scopeVHost, limitConsumers
	case clients.QueueConsumers, clients.CountKinds:
	}
	return scopeQueue, limitConsumers
}

// limit returns how many there may be; Unlimited: any number.
func (b *Broker) limit(v *catalog.View, k clients.Count) int64 {
	scope, name := limitOf(k.Kind)
	var all []catalog.NamedLimit
	switch scope {
	case scopeUser:
		if u, ok := v.User(k.Name); ok {
			all = u.NamedLimits()
		}
	case scopeVHost:
		if h, ok := v.VHost(k.Name); ok {
			all = h.NamedLimits()
		}
	default:
		if r, ok := v.QueueByUID(k.Queue); ok {
			return b.policies.InForce(v, r).Quotas.MaxConsumers
		}
	}
	for _, l := range all {
		if l.Name == name {
			return l.Value
		}
	}
	return Unlimited
}

func aboveLimit(v *catalog.View, k clients.Count, limit int64) *Error {
	scope, name := limitOf(k.Kind)
	e := &Error{Class: NotAllowed, Kind: scopeName(scope), Name: k.Name, Arg: name, Value: strconv.FormatInt(limit, 10), Problem: ProblemLimit}
	switch scope {
	case scopeVHost:
		e.VHost = k.Name
	case scopeQueue:
		if r, ok := v.QueueByUID(k.Queue); ok {
			e.VHost, e.Name = r.VHost, r.Name
		}
	}
	e.Reason = "so many are there already; end some, or have the limit raised"
	return e
}

// admit counts one more, unless that is above its limit, over all nodes that answer. It
// counts first, so that of two that come to two nodes at the same time none is taken
// rather than both.
func (b *Broker) admit(ctx context.Context, k clients.Count) error {
	n := b.clients.Add(k, 1)
	v := b.view()
	limit := b.limit(v, k)
	if limit == Unlimited {
		return nil
	}
	if n <= limit {
		n += b.elsewhere(ctx, k)
	}
	if n <= limit {
		return nil
	}
	b.clients.Add(k, -1)
	e := aboveLimit(v, k, limit)
	b.quotas.refused(k, limit)
	if who, err := b.Who(ctx); err == nil && who != nil {
		e.User = who.User()
	}
	return e
}

// elsewhere returns how many there are on the other nodes.
func (b *Broker) elsewhere(ctx context.Context, k clients.Count) int64 {
	user, vhost := k.Name, ""
	if scope, _ := limitOf(k.Kind); scope == scopeVHost {
		user, vhost = "", k.Name
	}
	u := b.cluster.UsageElsewhere(ctx, user, vhost, k.Queue)
	return [...]int64{
		u.UserConnections, u.UserChannels, u.UserConsumers, u.VHostConnections, u.VHostChannels, u.VHostConsumers, u.QueueConsumers,
	}[k.Kind]
}

// enter counts a connection towards something, once, and tells whether it just did.
func (b *Broker) enter(ctx context.Context, c *Connection, k clients.Count) (first bool, err error) {
	if c == nil || k.Name == "" {
		return false, nil
	}
	return c.open.Enter(k, func() error { return b.admit(ctx, k) })
}

// EnterUser counts the context's connection as one of the user that calls by it; it is
// refused above the user's limit (VH-4). A connection counts once, until it ends; first tells that
// it does from now on.
func (b *Broker) EnterUser(ctx context.Context) (first bool, err error) {
	who, err := b.Who(ctx)
	if err != nil || who == nil {
		return false, err
	}
	return b.enter(ctx, connectionOf(ctx), clients.Count{Kind: clients.UserConnections, Name: who.User()})
}

// EnterVHost counts the context's connection as one of the vhost, if that exists (VH-4).
func (b *Broker) EnterVHost(ctx context.Context, vhost string) error {
	_, err := b.enterVHost(ctx, vhost)
	return err
}

// enterVHost is EnterVHost; exists tells whether there is such a vhost.
func (b *Broker) enterVHost(ctx context.Context, vhost string) (exists bool, err error) {
	v := b.view()
	if _, exists := v.VHost(vhost); !exists {
		return false, nil
	}
	_, err = b.enter(ctx, connectionOf(ctx), clients.Count{Kind: clients.VHostConnections, Name: vhost})
	return true, err
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
	return b.admitAll(ctx, []clients.Count{{Kind: clients.UserChannels, Name: who.User()}})
}

// mayEnter tells whether somebody may do anything in a vhost; nil, where nobody logs in, may.
func (b *Broker) mayEnter(v *catalog.View, who *Identity, vhost string) bool {
	if who == nil {
		return true
	}
	_, err := b.permission(v, who, vhost)
	return err == nil
}

// OpenChannelIn counts one more channel of a vhost, if that exists and the caller may do anything there, in
// the same way; nil: it is not counted. What it does there refuses others.
func (b *Broker) OpenChannelIn(ctx context.Context, vhost string) (closed func(), err error) {
	who, err := b.Who(ctx)
	if err != nil {
		return nil, err
	}
	v := b.view()
	if _, exists := v.VHost(vhost); exists && b.mayEnter(v, who, vhost) {
		return b.admitAll(ctx, []clients.Count{{Kind: clients.VHostChannels, Name: vhost}})
	}
	return nil, nil
}

// openConsumer counts one more consumer of the caller, of the vhost and of the queue, as OpenChannel does.
func (b *Broker) openConsumer(ctx context.Context, vhost string, queue id.QueueUID) (closed func(), err error) {
	who, err := b.Who(ctx)
	if err != nil {
		return nil, err
	}
	all := []clients.Count{{Kind: clients.VHostConsumers, Name: vhost}, {Kind: clients.QueueConsumers, Queue: queue}}
	if who != nil {
		all = append(all, clients.Count{Kind: clients.UserConsumers, Name: who.User()})
	}
	return b.admitAll(ctx, all)
}

// admitAll counts one more of each, or of none. closed takes them back, once.
func (b *Broker) admitAll(ctx context.Context, all []clients.Count) (closed func(), err error) {
	for i, k := range all {
		if err := b.admit(ctx, k); err != nil {
			for _, k := range all[:i] {
				b.clients.Add(k, -1)
			}
			return nil, err
		}
	}
	return sync.OnceFunc(func() {
		for _, k := range all {
			b.clients.Add(k, -1)
		}
	}), nil
}
