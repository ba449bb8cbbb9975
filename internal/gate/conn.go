package gate

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// askedTime is for how long a connection may stay without a login that has asked for health, each
// time that it does.
const askedTime = time.Minute

// Conn is a connection that was let in. Those of its methods that net.Conn does not have may be
// called concurrently, and of nil, which is a connection that came through no gate.
type Conn struct {
	*net.TCPConn
	g       *Gate
	address netip.Prefix
	known   atomic.Bool // it has logged in

	// Guarded by the gate's mu.
	inside   bool          // it is counted
	crowd    *crowd        // nil: it is no unauthenticated client any more
	place    *list.Element // among the silent ones; nil: its credentials are being looked at
	checking int           // looks at its credentials that have not ended
	holds    int           // that keep it although it does not log in
	timer    *time.Timer   // nil: it may be an unauthenticated client for ever
}

// From returns the gate's connection below others, as TLS's; nil if there is none.
func From(c net.Conn) *Conn {
	for {
		switch x := c.(type) {
		case *Conn:
			return x
		case interface{ NetConn() net.Conn }:
			c = x.NetConn()
		default:
			return nil
		}
	}
}

// Known reports whether the connection has logged in.
func (c *Conn) Known() bool { return c == nil || c.known.Load() }

// Admit notes that the connection has logged in.
func (c *Conn) Admit() {
	if c.Known() {
		return
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if c.known.Load() || !c.inside {
		return
	}
	c.known.Store(true)
	c.g.known(c)
	c.g.stats.Admitted++
}

// Check notes that credentials of the connection are being looked at, until done is called: as long
// it gives way to nobody.
func (c *Conn) Check() (done func()) {
	if c.Known() {
		return func() {}
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.checking++
	c.hush()
	return func() {
		c.g.mu.Lock()
		defer c.g.mu.Unlock()
		if c.checking--; c.checking == 0 && c.crowd != nil {
			c.place = c.crowd.silent.PushBack(c)
		}
	}
}

// hush takes the connection out of the silent ones. The caller holds the gate's mu.
func (c *Conn) hush() {
	if c.place != nil {
		c.crowd.silent.Remove(c.place)
		c.place = nil
	}
}

// Hold keeps a connection that has asked for health and does not log in: until release is called, and
// for a minute from then on. It still gives way when too many others come.
func (c *Conn) Hold() (release func()) {
	if c.Known() {
		return func() {}
	}
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.holds++
	return func() {
		c.g.mu.Lock()
		defer c.g.mu.Unlock()
		if c.holds--; c.crowd != nil && c.timer != nil {
			c.timer.Reset(max(askedTime, c.g.cfg.LoginTimeout))
		}
	}
}

// late closes a connection that has not logged in in time.
func (c *Conn) late() {
	g := c.g
	g.mu.Lock()
	if c.crowd == nil {
		g.mu.Unlock()
		return
	}
	if c.checking > 0 || c.holds > 0 {
		c.timer.Reset(g.cfg.LoginTimeout)
		g.mu.Unlock()
		return
	}
	g.remove(c)
	g.stats.Late++
	g.mu.Unlock()
	_ = c.TCPConn.Close()
	g.lines.tell("they did not log in in time", "client", c.RemoteAddr().String(), "limit", g.cfg.LoginTimeout)
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.g.mu.Lock()
	c.g.remove(c)
	c.g.mu.Unlock()
	return c.TCPConn.Close()
}

// connKey is the key of a connection in a context; its own type keeps it unique.
type connKey struct{}

// Context returns a context of what a connection's client asks, for Admit.
func Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, From(c))
}

// Of returns the connection of a context; nil if there is none.
func Of(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}
