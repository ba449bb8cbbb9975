package connections

import (
	"context"
	"strconv"
	"sync"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
)

// limit returns how many there may be; catalog.Unlimited: any number.
func (cs *Connections) limit(v *catalog.View, k clients.Count) int64 {
	scope, name := limits.OfCount(k.Kind)
	var all []catalog.NamedLimit
	switch scope {
	case limits.ScopeUser:
		if u, ok := v.User(k.Name); ok {
			all = u.NamedLimits()
		}
	case limits.ScopeVHost:
		if h, ok := v.VHost(k.Name); ok {
			all = h.NamedLimits()
		}
	default:
		if r, ok := v.QueueByUID(k.Queue); ok {
			return cs.policies.InForce(v, r).Quotas.MaxConsumers
		}
	}
	for _, l := range all {
		if l.Name == name {
			return l.Value
		}
	}
	return catalog.Unlimited
}

// aboveLimit is the refusal of one more than a limit allows; it names the scope, whose limit an operator has to raise.
func aboveLimit(v *catalog.View, k clients.Count, limit int64) *failure.Error {
	scope, name := limits.OfCount(k.Kind)
	e := &failure.Error{Class: failure.NotAllowed, Kind: scope.String(), Name: k.Name, Arg: name, Value: strconv.FormatInt(limit, 10), Problem: failure.ProblemLimit}
	switch scope {
	case limits.ScopeUser:
	case limits.ScopeVHost:
		e.VHost = k.Name
	case limits.ScopeQueue:
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
func (cs *Connections) admit(ctx context.Context, k clients.Count) error {
	n := cs.clients.Add(k, 1)
	v := cs.view()
	limit := cs.limit(v, k)
	if limit == catalog.Unlimited {
		return nil
	}
	if n <= limit {
		n += cs.elsewhere(ctx, k)
	}
	if n <= limit {
		return nil
	}
	cs.clients.Add(k, -1)
	e := aboveLimit(v, k, limit)
	cs.limits.Refused(k, limit)
	if who, err := cs.logins.Who(ctx); err == nil && who != nil {
		e.User = who.User()
	}
	return e
}

// elsewhere returns how many there are on the other nodes.
func (cs *Connections) elsewhere(ctx context.Context, k clients.Count) int64 {
	user, vhost := k.Name, ""
	if scope, _ := limits.OfCount(k.Kind); scope == limits.ScopeVHost {
		user, vhost = "", k.Name
	}
	u := cs.everywhere.UsageElsewhere(ctx, user, vhost, k.Queue)
	return [...]int64{
		u.UserConnections, u.UserChannels, u.UserConsumers, u.VHostConnections, u.VHostChannels, u.VHostConsumers, u.QueueConsumers,
	}[k.Kind]
}

// enter counts a connection towards something, once, and reports whether it just did.
func (cs *Connections) enter(ctx context.Context, c *Connection, k clients.Count) (first bool, err error) {
	if c == nil || k.Name == "" {
		return false, nil
	}
	return c.Open.Enter(k, func() error { return cs.admit(ctx, k) })
}

// EnterUser counts the context's connection as one of the user that calls by it; it is
// refused above the user's limit (VH-4). A connection counts once, until it ends; first reports that
// it does from now on.
func (cs *Connections) EnterUser(ctx context.Context) (first bool, err error) {
	who, err := cs.logins.Who(ctx)
	if err != nil || who == nil {
		return false, err
	}
	return cs.enter(ctx, ConnectionOf(ctx), clients.Count{Kind: clients.UserConnections, Name: who.User()})
}

// EnterVHost counts the context's connection as one of the vhost, if that exists (VH-4).
// exists reports whether it does.
func (cs *Connections) EnterVHost(ctx context.Context, vhost string) (exists bool, err error) {
	v := cs.view()
	if _, exists := v.VHost(vhost); !exists {
		return false, nil
	}
	_, err = cs.enter(ctx, ConnectionOf(ctx), clients.Count{Kind: clients.VHostConnections, Name: vhost})
	return true, err
}

// OpenVHost reports whether the caller may use a vhost at all, as one that opens a connection
// to it asks: NotAllowed if there is none, it has no permission there, or its limit is
// reached.
func (cs *Connections) OpenVHost(ctx context.Context, vhost string) error {
	v, err := cs.serving.ViewOf("")
	if err != nil {
		return err
	}
	if _, ok := v.VHost(vhost); !ok {
		return &failure.Error{Class: failure.NotAllowed, VHost: vhost, Kind: "vhost", Name: vhost, Problem: failure.ProblemVHostMissing, Reason: "does not exist"}
	}
	who, err := cs.logins.Who(ctx)
	if err != nil {
		return err
	}
	if who != nil {
		if _, err := cs.permissions.Permission(v, who, vhost); err != nil {
			return err
		}
	}
	_, err = cs.EnterVHost(ctx, vhost)
	return err
}

// OpenChannel counts one more channel of the caller, which is a stream over gRPC; it is
// refused above the user's limit (VH-4). closed takes it back.
func (cs *Connections) OpenChannel(ctx context.Context) (closed func(), err error) {
	who, err := cs.logins.Who(ctx)
	if err != nil {
		return nil, err
	}
	if who == nil {
		return func() {}, nil
	}
	return cs.admitAll(ctx, []clients.Count{{Kind: clients.UserChannels, Name: who.User()}})
}

// OpenChannelIn counts one more channel of a vhost, if that exists and the caller may do anything there, in
// the same way; nil: it is not counted. What it does there refuses others.
func (cs *Connections) OpenChannelIn(ctx context.Context, vhost string) (closed func(), err error) {
	who, err := cs.logins.Who(ctx)
	if err != nil {
		return nil, err
	}
	v := cs.view()
	if _, exists := v.VHost(vhost); exists && cs.permissions.MayEnter(v, who, vhost) {
		return cs.admitAll(ctx, []clients.Count{{Kind: clients.VHostChannels, Name: vhost}})
	}
	return nil, nil
}

// OpenConsumer counts one more consumer of the caller, of the vhost and of the queue, as OpenChannel does.
func (cs *Connections) OpenConsumer(ctx context.Context, vhost string, queue id.QueueUID) (closed func(), err error) {
	who, err := cs.logins.Who(ctx)
	if err != nil {
		return nil, err
	}
	all := []clients.Count{{Kind: clients.VHostConsumers, Name: vhost}, {Kind: clients.QueueConsumers, Queue: queue}}
	if who != nil {
		all = append(all, clients.Count{Kind: clients.UserConsumers, Name: who.User()})
	}
	return cs.admitAll(ctx, all)
}

// admitAll counts one more of each, or of none. closed takes them back, once.
func (cs *Connections) admitAll(ctx context.Context, all []clients.Count) (closed func(), err error) {
	for i, k := range all {
		if err := cs.admit(ctx, k); err != nil {
			for _, k := range all[:i] {
				cs.clients.Add(k, -1)
			}
			return nil, err
		}
	}
	return sync.OnceFunc(func() {
		for _, k := range all {
			cs.clients.Add(k, -1)
		}
	}), nil
}
