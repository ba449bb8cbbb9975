// Package gate bounds the cost of clients that have not logged in. It limits their connections, in
// all and from one address, and the time that each has for its login. It also keeps file
// descriptors free that the process needs for itself.
//
// A Gate stands before the listeners that share its bounds. A server calls Conn.Admit when a client
// has logged in. All other connections are unauthenticated clients. When there are too many, the
// Gate takes the address that has the most, and closes its connection that has been silent for the
// longest time. It never closes a connection whose credentials are being checked, so that many
// clients that connect at once log in one after the other.
package gate

import (
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/lograte"
)

// Defaults of Config.
const (
	DefaultMaxConnections     = 10_000
	DefaultMaxUnauthenticated = 2000
	DefaultLoginTimeout       = 10 * time.Second

	// addressShare of the unauthenticated clients may come from one address.
	addressShare = 4
)

// Config describes a Gate. Zero values are the defaults.
type Config struct {
	Name   string       // name in the log
	Logger *slog.Logger // nil: nothing is logged
	// MaxConnections bounds all connections, also those that have not logged in; 0: 10,000.
	MaxConnections int
	// MaxUnauthenticated bounds the connections that have not logged in; 0: 2,000. A process with few
	// file descriptors accepts fewer.
	MaxUnauthenticated int
	// MaxPerAddress bounds the unauthenticated connections of one address, which is an IPv4 address or
	// an IPv6 /64; 0: a quarter of MaxUnauthenticated.
	MaxPerAddress int
	// LoginTimeout is how long a connection may stay open without a login; 0: 10 s, negative: without
	// limit.
	LoginTimeout time.Duration
	// Own marks connections that the node itself needs, such as links to other nodes and probes. They
	// may use file descriptors that client connections leave free.
	Own bool
}

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{{"MaxConnections", c.MaxConnections}, {"MaxUnauthenticated", c.MaxUnauthenticated}, {"MaxPerAddress", c.MaxPerAddress}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("gate: %s = %d: want 0 (default) or more", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// setDefault writes the default over a zero value.
func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Gate bounds the connections of some listeners. All methods may be called concurrently.
type Gate struct {
	cfg   Config
	lines lines

	mu              sync.Mutex // guards what follows
	open            int
	unauthenticated int
	from            map[netip.Prefix]*crowd
	stats           Stats
}

// crowd are the unauthenticated clients of one address.
type crowd struct {
	count  int
	silent list.List // of *Conn: clients whose credentials are not being checked, the oldest in front
}

// Stats are counts since the start of the process, and current figures.
type Stats struct {
	// Admitted connections have logged in.
	Admitted uint64
	// CrowdedOut connections had not logged in and were closed to make room. Refused ones found no
	// room; Scarce ones, a part of them, found no file descriptor. Late ones did not log in in time.
	CrowdedOut, Refused, Scarce, Late uint64
	// Connections are open now. Unauthenticated ones of them have not logged in.
	Connections, Unauthenticated int
	// Limit is how many connections there may be.
	Limit int
}

// New returns a Gate. The Config must be valid.
func New(c Config) *Gate {
	setDefault(&c.MaxConnections, DefaultMaxConnections)
	setDefault(&c.MaxUnauthenticated, DefaultMaxUnauthenticated)
	setDefault(&c.MaxPerAddress, max(1, c.MaxUnauthenticated/addressShare))
	setDefault(&c.LoginTimeout, DefaultLoginTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Gate{cfg: c, lines: lines{log: c.Logger.With("listeners", c.Name), of: map[string]*lograte.Lines{}}, from: map[netip.Prefix]*crowd{}}
}

// Stats returns the gate's figures.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Connections, s.Unauthenticated, s.Limit = g.open, g.unauthenticated, g.cfg.MaxConnections
	return s
}

// LoginTimeout returns how long a connection may stay open without a login; not positive: without
// limit.
func (g *Gate) LoginTimeout() time.Duration { return g.cfg.LoginTimeout }

// Enter admits an accepted connection and returns it as a *Conn. If there is no room, it closes the
// connection and returns nil. A connection of another network than TCP is returned unchanged.
func (g *Gate) Enter(nc net.Conn) net.Conn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc
	}
	if c := g.enter(tcp); c != nil {
		return c
	}
	return nil
}

// enter admits a connection as an unauthenticated client; nil if there is no room.
func (g *Gate) enter(tcp *net.TCPConn) *Conn {
	c := &Conn{TCPConn: tcp, g: g, address: addressOf(tcp.RemoteAddr())}
	number := descriptorOf(tcp)
	limit := descriptorLimit()
	ceiling, unauthenticated := ceilingOf(limit, g.cfg.Own), min(g.cfg.MaxUnauthenticated, unauthenticatedOf(limit, g.cfg.Own))
	g.mu.Lock()
	victims, ok := g.makeRoom(c.address, unauthenticated, number < ceiling)
	if ok {
		g.add(c)
	} else {
		g.stats.Refused++
	}
	g.mu.Unlock()
	for _, v := range victims {
		_ = v.TCPConn.Close() // its server gets an error, and closes it as well
	}
	if len(victims) > 0 {
		g.lines.warn("clients without a login were closed to make room", "client", tcp.RemoteAddr().String())
	}
	if !ok {
		_ = tcp.Close()
		g.lines.warn("there is no room for another connection", "client", tcp.RemoteAddr().String(),
			"limit", min(g.cfg.MaxConnections, ceiling), "descriptor", number)
		return nil
	}
	return c
}

// makeRoom removes unauthenticated clients until there is room for another connection, and at most
// so many are left. It returns false if there is no room; without leave to keep its file descriptor, there is no room
// in any case. The caller holds mu, and closes the victims.
func (g *Gate) makeRoom(from netip.Prefix, most int, leave bool) (victims []*Conn, ok bool) {
	drop := func(of *crowd) bool {
		v := g.oldest(of)
		if v == nil {
			return false
		}
		g.remove(v)
		g.stats.CrowdedOut++
		victims = append(victims, v)
		return true
	}
	for c := g.from[from]; c != nil && c.count >= min(g.cfg.MaxPerAddress, most); c = g.from[from] {
		if !drop(c) {
			return victims, false
		}
	}
	for g.unauthenticated >= most || g.open >= g.cfg.MaxConnections {
		if !drop(g.busiest()) {
			return victims, false
		}
	}
	if !leave { // all lower descriptors are in use
		g.stats.Scarce++
		drop(g.busiest()) // makes room for the next connection
		return victims, false
	}
	return victims, true
}

// oldest returns the crowd's unauthenticated client that has been silent for the longest time, or nil.
func (g *Gate) oldest(of *crowd) *Conn {
	if of == nil || of.silent.Len() == 0 {
		return nil
	}
	c, _ := of.silent.Front().Value.(*Conn)
	return c
}

// busiest returns the crowd of the address that has the most silent clients.
func (g *Gate) busiest() (most *crowd) {
	for _, c := range g.from {
		if most == nil || c.silent.Len() > most.silent.Len() {
			most = c
		}
	}
	return most
}

// add counts a connection as an unauthenticated client. The caller holds mu.
func (g *Gate) add(c *Conn) {
	g.open++
	g.unauthenticated++
	of := g.from[c.address]
	if of == nil {
		of = &crowd{}
		g.from[c.address] = of
	}
	of.count++
	c.inside, c.crowd = true, of
	c.place = of.silent.PushBack(c)
	if g.cfg.LoginTimeout > 0 {
		c.timer = time.AfterFunc(g.cfg.LoginTimeout, c.late)
	}
}

// known stops counting a connection as an unauthenticated client. The caller holds mu.
func (g *Gate) known(c *Conn) {
	of := c.crowd
	if of == nil {
		return
	}
	c.hush()
	c.crowd = nil
	g.unauthenticated--
	if of.count--; of.count == 0 {
		delete(g.from, c.address)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// remove forgets a connection that is closed, or about to be. The caller holds mu.
func (g *Gate) remove(c *Conn) {
	if c.inside {
		c.inside = false
		g.open--
		g.known(c)
	}
}

// addressBits6 is the IPv6 prefix length that one customer usually gets.
const addressBits6 = 64

// addressOf returns the prefix whose connections share one bound.
func addressOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = addressBits6
	}
	p, _ := ip.Prefix(bits)
	return p
}
