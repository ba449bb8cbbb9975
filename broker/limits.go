package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
)

// limitOf returns how many there may be, with the name of the limit; Unlimited: any number.
func limitOf(v *catalog.View, k clients.Count) (n int64, name string) {
	switch k.Kind {
	case clients.UserConnections, clients.UserChannels:
		u, ok := v.User(k.Name)
		switch {
		case !ok:
			return Unlimited, ""
		case k.Kind == clients.UserChannels:
			return u.MaxChannels, "max-channels"
		}
		return u.MaxConnections, "max-connections"
	case clients.VHostConnections:
		if h, ok := v.VHost(k.Name); ok {
			return h.MaxConnections, "max-connections"
		}
	}
	return Unlimited, ""
}

func aboveLimit(k clients.Count, limit int64, name string) *Error {
	e := &Error{Class: NotAllowed, Kind: "user", Name: k.Name, Arg: name, Value: strconv.FormatInt(limit, 10), Problem: ProblemLimit}
	if k.Kind == clients.VHostConnections {
		e.Kind, e.VHost = "vhost", k.Name
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
	limit, name := limitOf(v, k)
	if limit == Unlimited {
		return nil
	}
	if n <= limit {
		user, vhost := k.Name, ""
		if k.Kind == clients.VHostConnections {
			user, vhost = "", k.Name
		}
		there := b.cluster.UsageElsewhere(ctx, user, vhost)
		n += [...]int64{there.UserConnections, there.UserChannels, there.VHostConnections}[k.Kind]
	}
	if n <= limit {
		return nil
	}
	b.clients.Add(k, -1)
	e := aboveLimit(k, limit, name)
	if who, err := b.Who(ctx); err == nil && who != nil {
		e.User = who.User()
	}
	return e
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
	v := b.view()
	if _, exists := v.VHost(vhost); !exists {
		return nil
	}
	_, err := b.enter(ctx, connectionOf(ctx), clients.Count{Kind: clients.VHostConnections, Name: vhost})
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
	k := clients.Count{Kind: clients.UserChannels, Name: who.User()}
	if err := b.admit(ctx, k); err != nil {
		return nil, err
	}
	return func() { b.clients.Add(k, -1) }, nil
}
