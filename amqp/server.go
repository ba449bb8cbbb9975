// Package amqp serves AMQP 0-9-1 to unchanged clients of RabbitMQ, as a thin translation
// to package broker (AM-1 to AM-9).
//
// A connection has two goroutines. The reader owns the protocol: it reads frames, runs the methods
// of all channels in their order, and appends answers to the output. The writer sends that output,
// takes deliveries from the consumers that have some, gathers confirms, and sends heartbeats.
// Methods that wait for the broker run in a few more goroutines beside the reader, which exist only
// while there are such methods. The connection's mu guards what they share. There is no goroutine
// per channel, consumer or message.
package amqp

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/gate"
)

// Server serves clients. All methods may be called concurrently.
type Server struct {
	cfg Config
	log *slog.Logger
	b   *broker.Broker

	incoming *Incoming
	// room returns why a queue has no disk space for messages.
	room     func(vhost, queue string) error
	counters counters
	running  sync.WaitGroup
	stopping chan struct{}
	stopOnce sync.Once
	buffers  sync.Pool // of *[]byte: see output
	reads    sync.Pool // of *[]byte, of busyRead bytes

	mu      sync.Mutex
	conns   map[*conn]struct{}
	blocked map[*conn]struct{} // connections whose publishes are held back
}

// counters count since the start, except channels and consumers, which are present numbers.
type counters struct {
	opened, closed, refused, failed, stalled, blocked atomic.Uint64
	channelsFailed                                    atomic.Uint64
	channels, consumers                               atomic.Int64
}

// Stats are counts since the start of the process, and present levels.
type Stats struct {
	// Opened is how many connections logged in, Closed how many of those have ended, Refused how many were turned
	// away before they logged in, and Failed how many ended because of a fault of the client.
	Opened, Closed, Refused, Failed uint64
	// ChannelsFailed is how many channels the server closed because of a fault of the client, or a limit.
	ChannelsFailed uint64
	// Stalled is how many connections were cut off because their client read nothing for the
	// WriteTimeout. Blocked is how often a connection's publishes were held back.
	Stalled, Blocked uint64
	// Connections, Channels and Consumers are how many are open now.
	Connections, Channels, Consumers int64
}

// Stats returns the server's figures.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	c := &s.counters
	return Stats{
		Closed: c.closed.Load(), ChannelsFailed: c.channelsFailed.Load(),
		Opened: c.opened.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
		Stalled: c.stalled.Load(), Blocked: c.blocked.Load(),
		Connections: int64(n), Channels: c.channels.Load(), Consumers: c.consumers.Load(),
	}
}

// New returns a server that does not listen yet. The Config must be valid.
func New(c Config) *Server {
	setDefault(&c.FrameMax, DefaultFrameMax)
	setDefault(&c.ChannelMax, DefaultChannelMax)
	setDefault(&c.Heartbeat, DefaultHeartbeat)
	setDefault(&c.ServeTimeout, DefaultServeTimeout)
	setDefault(&c.PublishWindow, DefaultPublishWindow)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	setDefault(&c.Version, "unknown")
	setDefault(&c.Cluster, "quorate")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Gate == nil {
		c.Gate = gate.New(gate.Config{Name: "amqp", Logger: c.Logger})
	}
	if c.Incoming == nil {
		c.Incoming = NewIncoming(nil, IncomingLimits{ConnectionBytes: max(DefaultIncomingConnectionBytes, int64(c.Broker.MaxBodyBytes())+IncomingSlack)})
	}
	return &Server{
		cfg: c, log: c.Logger, b: c.Broker, incoming: c.Incoming, room: c.Broker.Room, stopping: make(chan struct{}), conns: make(map[*conn]struct{}),
	}
}

// AwaitServing waits until the node serves clients (EX-16); false: Shutdown was called.
func (s *Server) AwaitServing() bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.b.Serving.AwaitServing(ctx) == nil && !s.isStopping()
}

// Serve serves clients that connect to l until Shutdown; then it returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	l = s.cfg.Gate.Listen(l)
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
		case s.isStopping():
			return nil
		default:
			return fmt.Errorf("amqp: %w", err)
		}
	}
}

// isStopping reports that Shutdown has begun. It may be called from any goroutine.
func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// Shutdown notifies clients that the node is stopping (320), waits until they have disconnected, and
// cuts off the rest when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	s.each(func(c *conn) { c.force("the node is stopping; connect to another one") })
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

// serve runs a connection until it ends.
func (s *Server) serve(nc net.Conn) {
	if s.cfg.TLS != nil {
		nc = tls.Server(nc, s.cfg.TLS)
	}
	c := newConn(s, nc)
	if !s.add(c) {
		_ = nc.Close()
		return
	}
	defer s.remove(c)
	c.run()
}
