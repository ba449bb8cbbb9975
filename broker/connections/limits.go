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

// limit returns the limit of a count, or catalog.Unlimited.
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

// aboveLimit refuses one more than a limit allows. The error names the scope, so that it is clear which limit an
// operator has to raise.
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

// admit counts one more, unless that is above the limit over all nodes that answer. It counts before it asks the
// others. So if the last place is taken on two nodes at the same time, both may be refused, but never both admitted.
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

// elsewhere returns the count of all other nodes.
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

// enter counts a connection towards a limit, but only once, and reports whether this was the first time.
func (cs *Connections) enter(ctx context.Context, c *Connection, k clients.Count) (first bool, err error) {
	if c == nil || k.Name == "" {
		return false, nil
	}
	return c.Open.Enter(k, func() error { return cs.admit(ctx, k) })
}

// EnterUser counts the context's connection as one of the user that makes the call, and refuses it above the user's
// limit (VH-4). A connection counts once, until it ends; first reports whether this call began to count it.
func (cs *Connections) EnterUser(ctx context.Context) (first bool, err error) {
	who, err := cs.logins.Who(ctx)
	if err != nil || who == nil {
		return false, err
	}
	return cs.enter(ctx, ConnectionOf(ctx), clients.Count{Kind: clients.UserConnections, Name: who.User()})
}

// EnterVHost counts the context's connection as one of the vhost, if the vhost exists (VH-4). exists reports whether it
// does.
func (cs *Connections) EnterVHost(ctx context.Context, vhost string) (exists bool, err error) {
	v := cs.view()
	if _, exists := v.VHost(vhost); !exists {
		return false, nil
	}
	_, err = cs.enter(ctx, ConnectionOf(ctx), clients.Count{Kind: clients.VHostConnections, Name: vhost})
	return true, err
}

// OpenVHost checks that the caller may use a vhost, as a client asks that opens a connection to it. It returns
// NotAllowed if the vhost does not exist, if the caller has no permission there, or if the vhost's limit is reached.
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

// OpenChannel counts one more channel of the caller; over gRPC that is a stream. It is refused above the user's limit
// (VH-4). closed takes the count back.
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

// OpenChannelIn counts one more channel of a vhost in the same way. It returns nil and counts nothing if the vhost does
// not exist or the caller may do nothing there; the calls on the channel will then be refused.
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

// OpenConsumer counts one more consumer of the caller, of the vhost and of the queue, in the same way as OpenChannel.
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

// admitAll counts one more of each, or of none. closed takes them back; further calls do nothing.
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
