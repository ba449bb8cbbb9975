package gate

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// askedTime is how much longer a connection without a login may stay open after a health request.
// Each request starts it again.
const askedTime = time.Minute

// Conn is a connection that the gate has accepted. The methods that it adds to net.Conn may be
// called concurrently. They may also be called on nil, which stands for a connection that came
// through no gate.
type Conn struct {
	*net.TCPConn
	g       *Gate
	address netip.Prefix
	known   atomic.Bool // it has logged in

	// Guarded by the gate's mu.
	inside   bool          // the gate counts it as open
	crowd    *crowd        // nil: it is no longer an unauthenticated client
	place    *list.Element // in the crowd's list of silent clients; nil while its credentials are being checked
	checking int           // credential checks that have not ended
	holds    int           // holds that keep it open although it does not log in
	timer    *time.Timer   // nil: it may stay unauthenticated without a time limit
}

// From returns the gate's connection underneath other layers, such as TLS, or nil.
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

// AcknowledgeWithin is the function of that name for the gate's connection; it does nothing without one.
func (c *Conn) AcknowledgeWithin(d time.Duration) error {
	if c == nil {
		return nil
	}
	return AcknowledgeWithin(c.TCPConn, d)
}

// Known reports whether the connection has logged in.
func (c *Conn) Known() bool { return c == nil || c.known.Load() }

// Admit records that the connection has logged in.
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

// Check records that a check of the connection's credentials is under way, until the caller calls
// done. Until then, the gate does not close the connection to make room for another one.
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

// hush takes the connection off the list of silent clients. The caller holds the gate's mu.
func (c *Conn) hush() {
	if c.place != nil {
		c.crowd.silent.Remove(c.place)
		c.place = nil
	}
}

// Hold keeps a connection that asks for health and does not log in: until the caller calls release,
// and for a minute after that. The gate may still close it to make room.
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

// late closes a connection whose client has not logged in in time.
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
	g.lines.warn("the client did not log in in time", "client", c.RemoteAddr().String(), "limit", g.cfg.LoginTimeout)
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

// Context returns a context that carries the connection to the code that handles the client's
// requests, which calls Admit on it.
func Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, From(c))
}

// Of returns the connection of a context, or nil.
func Of(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}
