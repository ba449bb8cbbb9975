package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
)

// countOf is something that a limit bounds (VH-4).
type countOf struct {
	kind countKind
	name string // of the user or vhost
}

type countKind uint8

const (
	userConnections countKind = iota
	userChannels
	vhostConnections
)

// limit returns how many there may be, with the name of the limit; Unlimited: any number.
func (k countOf) limit(v *catalog.View) (n int64, name string) {
	switch k.kind {
	case userConnections, userChannels:
		u, ok := v.User(k.name)
		switch {
		case !ok:
			return Unlimited, ""
		case k.kind == userChannels:
			return u.MaxChannels, "max-channels"
		}
		return u.MaxConnections, "max-connections"
	case vhostConnections:
		if h, ok := v.VHost(k.name); ok {
			return h.MaxConnections, "max-connections"
		}
	}
	return Unlimited, ""
}

func (k countOf) refused(limit int64, name string) *Error {
	e := &Error{Class: NotAllowed, Kind: "user", Name: k.name, Arg: name, Value: strconv.FormatInt(limit, 10), Problem: ProblemLimit}
	if k.kind == vhostConnections {
		e.Kind, e.VHost = "vhost", k.name
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

// Usage is what this node has of a user and of a vhost; for cluster.Config.Usage.
func (b *Broker) Usage(user, vhost string) cluster.Usage {
	s := b.connections
	return cluster.Usage{
		UserConnections:  s.of(countOf{userConnections, user}),
		UserChannels:     s.of(countOf{userChannels, user}),
		VHostConnections: s.of(countOf{vhostConnections, vhost}),
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
	limit, name := k.limit(v)
	if limit == Unlimited {
		return nil
	}
	if cl := b.cluster.Load(); cl != nil && n <= limit {
		user, vhost := k.name, ""
		if k.kind == vhostConnections {
			user, vhost = "", k.name
		}
		there := cl.UsageElsewhere(ctx, user, vhost)
		n += [...]int64{there.UserConnections, there.UserChannels, there.VHostConnections}[k.kind]
	}
	if n <= limit {
		return nil
	}
	b.connections.add(k, -1)
	e := k.refused(limit, name)
	if who, err := b.Who(ctx); err == nil && who != nil {
		e.User = who.User()
	}
	return e
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
	return b.enter(ctx, connectionOf(ctx), countOf{userConnections, who.User()})
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
	_, err := b.enter(ctx, connectionOf(ctx), countOf{vhostConnections, vhost})
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
		if _, err := b.permission(v, who.User(), vhost); err != nil {
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
	k := countOf{userChannels, who.User()}
	if err := b.admit(ctx, k); err != nil {
		return nil, err
	}
	return func() { b.connections.add(k, -1) }, nil
}
