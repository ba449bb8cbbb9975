// Package amqp serves AMQP 0-9-1 to unchanged clients of RabbitMQ, as a thin translation
// to package broker (AM-1 to AM-9).
//
// A connection has two goroutines. The reader owns the protocol: it reads frames, runs the
// methods of all channels in their order, and appends answers to the output. The writer
// sends that output, takes deliveries of the consumers that have some, gathers confirms,
// and sends heartbeats. What both see is guarded by the connection's mu. Nothing here costs
// a goroutine per channel, consumer or message.
package amqp

import (
	"container/list"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// Defaults of Config.
const (
	DefaultFrameMax         = 128 << 10
	DefaultChannelMax       = 2047
	DefaultHeartbeat        = 60 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultMaxConnections   = 10_000
	DefaultPublishWindow    = 8192
	DefaultWriteTimeout     = 30 * time.Second
	DefaultMaxStrangers     = 1000
)

// Config describes a Server. Zero values are the defaults.
type Config struct {
	Broker *broker.Broker // needed
	Logger *slog.Logger   // nil: nothing is logged
	// TLS protects connections; nil: plain text.
	TLS *tls.Config
	// CertificateUser returns the user whom a client's certificate, which TLS must have
	// verified, stands for; nil: mechanism EXTERNAL is not offered.
	CertificateUser func(*x509.Certificate) (string, error)
	// Version is told to clients.
	Version string
	// FrameMax is offered as the largest frame, in bytes; 0: 128 KiB, at least 4096.
	FrameMax uint32
	// ChannelMax is offered as the highest number of a channel; 0: 2047.
	ChannelMax uint16
	// Heartbeat is offered as the interval of heartbeats; 0: 60 s. Clients may choose less, or
	// none.
	Heartbeat time.Duration
	// HandshakeTimeout bounds the time from the first byte to connection.open; 0: 10 s.
	HandshakeTimeout time.Duration
	// MaxConnections bounds the connections of this node, those that have not logged in
	// included; 0: 10,000.
	MaxConnections int
	// MaxStrangers bounds those of them that have not logged in; the one that has tried for the
	// longest time gives way to the next. 0: 1,000.
	MaxStrangers int
	// PublishWindow bounds the messages of one connection that queues have not decided about;
	// beyond it nothing is read from it. 0: 8192. Their bytes are bounded for each queue.
	PublishWindow int
	// WriteTimeout is how long a client may take nothing of what it is sent before its
	// connection is cut; 0: 30 s.
	WriteTimeout time.Duration
}

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Broker == nil {
		errs = append(errs, errors.New("amqp: Broker is not set"))
	}
	if c.FrameMax != 0 && c.FrameMax < wire.MinFrameMax {
		errs = append(errs, fmt.Errorf("amqp: FrameMax = %d: want 0 (default) or at least %d", c.FrameMax, wire.MinFrameMax))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Heartbeat", int64(c.Heartbeat)},
		{"HandshakeTimeout", int64(c.HandshakeTimeout)},
		{"MaxConnections", int64(c.MaxConnections)},
		{"MaxStrangers", int64(c.MaxStrangers)},
		{"PublishWindow", int64(c.PublishWindow)},
		{"WriteTimeout", int64(c.WriteTimeout)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("amqp: %s = %d: want 0 (default) or more", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// Server serves clients. All methods may be called concurrently.
type Server struct {
	cfg Config
	log *slog.Logger
	b   *broker.Broker

	// room returns why a queue takes no messages for want of disk space.
	room     func(vhost, queue string) error
	counters counters
	running  sync.WaitGroup
	stopping chan struct{}
	stopOnce sync.Once

	mu      sync.Mutex
	conns   map[*conn]struct{}
	blocked map[*conn]struct{} // whose publishes are held back
	// strangers have not logged in, the one that came first in front.
	strangers list.List
}

type counters struct {
	opened, refused, failed, stalled, blocked, crowdedOut atomic.Uint64
	channels, consumers                                   atomic.Int64
}

// Stats are counts since the start of the process, and what there is at the moment.
type Stats struct {
	// Opened logged in, Refused were turned away before, Failed ended by a fault of the client.
	Opened, Refused, Failed uint64
	// Stalled were cut because they took nothing of what they were sent for the
	// WriteTimeout; Blocked counts how often a connection's publishes were held back.
	Stalled, Blocked uint64
	// CrowdedOut had not logged in when too many others came.
	CrowdedOut uint64
	// Connections, Channels and Consumers are open now.
	Connections, Channels, Consumers int64
}

// Stats returns the server's figures.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	c := &s.counters
	return Stats{
		Opened: c.opened.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
		Stalled: c.stalled.Load(), Blocked: c.blocked.Load(), CrowdedOut: c.crowdedOut.Load(),
		Connections: int64(n), Channels: c.channels.Load(), Consumers: c.consumers.Load(),
	}
}

// New returns a server that does not listen yet. The Config must be valid.
func New(c Config) *Server {
	setDefault(&c.FrameMax, DefaultFrameMax)
	setDefault(&c.ChannelMax, DefaultChannelMax)
	setDefault(&c.Heartbeat, DefaultHeartbeat)
	setDefault(&c.HandshakeTimeout, DefaultHandshakeTimeout)
	setDefault(&c.MaxConnections, DefaultMaxConnections)
	setDefault(&c.MaxStrangers, DefaultMaxStrangers)
	setDefault(&c.PublishWindow, DefaultPublishWindow)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	setDefault(&c.Version, "unknown")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: c, log: c.Logger, b: c.Broker, room: c.Broker.Room, stopping: make(chan struct{}), conns: make(map[*conn]struct{})}
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// acceptRetry is how long Serve waits when the process has no room for another connection.
const acceptRetry = 50 * time.Millisecond

// Serve answers clients that connect to l until Shutdown; then it returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	go func() {
		<-s.stopping
		_ = l.Close()
	}()
	s.running.Go(s.endGone)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			s.running.Go(func() { s.serve(nc) })
			continue
		case s.isStopping():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("amqp: %w", err)
		}
		s.log.Warn("a connection cannot be accepted", "error", err)
		select {
		case <-time.After(acceptRetry):
		case <-s.stopping:
		}
	}
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// Shutdown tells clients that the node stops (320), waits until they have gone, and cuts
// off those that are left when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	s.each(func(c *conn) { c.force("the node stops; connect to another one") })
	gone := make(chan struct{})
	go func() {
		s.running.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		s.each(func(c *conn) { c.cut() })
		<-gone
		return fmt.Errorf("amqp: connections were cut off: %w", ctx.Err())
	}
}

// Connection is an open connection of this server.
type Connection struct {
	Name           string // both addresses, as RabbitMQ writes them
	User, VHost    string
	ClientName     string // what the client calls itself
	Channels       int
	RemoteAddr     net.Addr
	Since          time.Time
	HeartbeatEvery time.Duration // 0: none
	Blocked        bool          // its publishes are held back
}

// Connections returns those that have logged in.
func (s *Server) Connections() []Connection {
	var all []Connection
	s.each(func(c *conn) {
		if x, open := c.describe(); open {
			all = append(all, x)
		}
	})
	return all
}

// CloseConnection ends a connection with a reason that its client is told (320), and says
// whether there was one of that name.
func (s *Server) CloseConnection(name, reason string) bool {
	found := false
	s.each(func(c *conn) {
		if x, open := c.describe(); open && x.Name == name {
			found = true
			c.force(reason)
		}
	})
	return found
}

func (s *Server) each(do func(*conn)) {
	s.mu.Lock()
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		do(c)
	}
}

// add counts a connection, unless there are too many or the server stops.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= s.cfg.MaxConnections || s.isStopping() {
		return false
	}
	s.conns[c] = struct{}{}
	c.stranger = s.strangers.PushBack(c)
	if s.strangers.Len() > s.cfg.MaxStrangers {
		s.crowdOut()
	}
	return true
}

// crowdOut cuts the connection off that has not logged in for the longest time.
func (s *Server) crowdOut() {
	if first, ok := s.strangers.Remove(s.strangers.Front()).(*conn); ok {
		first.stranger = nil
		s.counters.crowdedOut.Add(1)
		s.running.Go(first.cut) // TLS may wait for a write
	}
}

// known notes that a connection has logged in.
func (s *Server) known(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
}

func (s *Server) forget(c *conn) {
	if c.stranger != nil {
		s.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
	delete(s.conns, c)
}

// serve runs a connection to its end.
func (s *Server) serve(nc net.Conn) {
	if s.cfg.TLS != nil {
		nc = tls.Server(nc, s.cfg.TLS)
	}
	c := newConn(s, nc)
	if !s.add(c) {
		s.counters.refused.Add(1)
		s.log.Warn("too many connections", "limit", s.cfg.MaxConnections, "client", nc.RemoteAddr())
		_ = nc.Close()
		return
	}
	defer s.remove(c)
	c.run()
}
