// Package gate bounds what clients cost that have not logged in: how many of their connections
// there are, in all and from one address, for how long each may go without a login, and that they
// leave the process the file descriptors that it needs for itself.
//
// A Gate stands before the listeners that share its bounds. A listener's server tells it of each
// connection who has logged in (Conn.Admit). The others are unauthenticated clients: when there are too many, the one that has
// been silent for the longest time gives way, of the address that has the most. Whose
// credentials are being looked at gives way to nobody, so that many who come at once get in one after the
// other.
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
	Name   string       // what the log calls it
	Logger *slog.Logger // nil: nothing is logged
	// MaxConnections bounds the connections, those that have not logged in included; 0: 10,000.
	MaxConnections int
	// MaxUnauthenticated bounds those of them that have not logged in; 0: 2,000. Of a process that has few
	// file descriptors they are fewer.
	MaxUnauthenticated int
	// MaxPerAddress bounds those of one address, of IPv4 or a /64 of IPv6; 0: a quarter of
	// MaxUnauthenticated.
	MaxPerAddress int
	// LoginTimeout is how long a connection may be without a login before it is closed; 0: 10 s,
	// negative: for ever.
	LoginTimeout time.Duration
	// Own is set for what the node itself needs, as links to other nodes and probes: such
	// connections may use file descriptors that those of clients leave free.
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
	silent list.List // of *Conn: whose credentials nobody looks at, the one that came first in front
}

// Stats are counts since the start of the process, and what there is at the moment.
type Stats struct {
	// Admitted have logged in.
	Admitted uint64
	// CrowdedOut had not logged in when too many others came; Refused came when there was no
	// room, and Scarce of them because file descriptors were short; Late did not log in in time.
	CrowdedOut, Refused, Scarce, Late uint64
	// Connections and Unauthenticated clients are open now; Unauthenticated clients have not logged in.
	Connections, Unauthenticated int
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
	s.Connections, s.Unauthenticated = g.open, g.unauthenticated
	return s
}

// LoginTimeout returns how long a connection may be without a login; not positive: for ever.
func (g *Gate) LoginTimeout() time.Duration { return g.cfg.LoginTimeout }

// Enter lets a connection in that was accepted, and returns it as a *Conn; nil if there is no room, and it
// is closed. One of another network than TCP passes as it is.
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

// enter lets a connection in, as an unauthenticated client; nil if there is no room.
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
		_ = v.TCPConn.Close() // its server learns of it, and closes it as well
	}
	if len(victims) > 0 {
		g.lines.tell("some have not logged in, and give way to others", "client", tcp.RemoteAddr().String())
	}
	if !ok {
		_ = tcp.Close()
		g.lines.tell("there is no room for one more", "client", tcp.RemoteAddr().String(),
			"limit", min(g.cfg.MaxConnections, ceiling), "descriptor", number)
		return nil
	}
	return c
}

// makeRoom takes unauthenticated clients out until one more connection has room, beside at most so many; false: it has none.
// A connection without leave to keep its file descriptor has none in any case. The caller holds mu, and closes the victims.
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
	if !leave { // all below are in use
		g.stats.Scarce++
		drop(g.busiest()) // for the next one that comes
		return victims, false
	}
	return victims, true
}

// oldest returns the unauthenticated client of some that has been silent for the longest time.
func (g *Gate) oldest(of *crowd) *Conn {
	if of == nil || of.silent.Len() == 0 {
		return nil
	}
	c, _ := of.silent.Front().Value.(*Conn)
	return c
}

// busiest returns the unauthenticated clients of the address that has the most silent ones.
func (g *Gate) busiest() (most *crowd) {
	for _, c := range g.from {
		if most == nil || c.silent.Len() > most.silent.Len() {
			most = c
		}
	}
	return most
}

// add takes a connection in as an unauthenticated client. The caller holds mu.
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

// known takes a connection out of the unauthenticated clients. The caller holds mu.
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

// addressBits6 of an IPv6 address are one customer's.
const addressBits6 = 64

// addressOf is what connections have their bound in common.
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
