package amqp

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// Sizes of buffers, in bytes.
const (
	firstRead = 4 << 10
	// outLimit is how much output may wait before nothing more is read from a client.
	outLimit = 1 << 20
)

// closeWait is how long a connection that is being closed waits for the client's answer.
const closeWait = 5 * time.Second

// endWait bounds how long the end of a connection or channel waits until its consumers and
// its queues are gone: a client that comes back at once must not find them.
const endWait = 2 * time.Second

// lingerTime is how long it reads on after its last words to one that cannot go on.
const lingerTime = 250 * time.Millisecond

// conn is one connection.
type conn struct {
	s    *Server
	nc   net.Conn
	log  *slog.Logger
	life context.Context // ends with the connection
	stop context.CancelFunc

	stranger *list.Element // guarded by the server's mu; nil: it has logged in

	// Of the reader.
	ctx       context.Context // of the broker's calls: life, with who makes them
	in        []byte
	from, to  int // of in: what was read and not parsed
	names     wire.Names
	owner     *broker.Connection
	buffer    *broker.Buffer // of deliveries
	ended     bool
	sender    *broker.Sender
	vhost     string
	frameMax  uint32
	chanMax   uint16
	heartbeat time.Duration
	client    client
	publish   broker.Publish // used again for every message

	w    writer
	held atomic.Bool // publishes wait: what blocking.on says

	received, sent atomic.Uint64 // bytes

	mu       sync.Mutex
	told     broker.ConnectionInfo // what operators are told of it that stays so; Name is empty until it is open
	channels map[uint16]*channel
	out      []byte        // frames to send
	news     chan struct{} // of capacity 1: there is something to send
	room     chan struct{} // of capacity 1: there is room in out, or in the window
	free     chan struct{} // of capacity 1: publishes may go on, or need not
	blocking blocking
	wakened  []*consumer // have something to take
	settling []*channel  // have results of publishes
	inFlight int         // publishes without a result
	greeted  bool        // it has sent the header of this protocol
	closing  bool        // connection.close was sent, or is not worth it
	done     bool        // no more output after what is in out
}

// client is what a client says of itself.
type client struct {
	name, product             string // product with its version
	cancelNotify, authFailure bool
	blocked                   bool
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		s: s, nc: nc, log: s.log.With("client", nc.RemoteAddr().String()), frameMax: wire.MinFrameMax,
		channels: make(map[uint16]*channel), news: make(chan struct{}, 1), room: make(chan struct{}, 1), free: make(chan struct{}, 1),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	c.ctx = c.life
	c.w.c = c
	return c
}

var (
	// errClosed ends the reader after connection.close-ok was sent or read.
	errClosed = errors.New("amqp: closed")
	// errOtherProtocol ends it after the header of this one was sent.
	errOtherProtocol = errors.New("amqp: the client speaks another protocol")
)

// run serves the connection to its end.
func (c *conn) run() {
	defer c.cut()
	var writing sync.WaitGroup
	writing.Go(func() {
		c.w.run()
		c.cut() // the reader ends as well
	})
	err := c.serve()
	c.finish(err)
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	signal(c.news)
	writing.Wait()
}

// serve reads until the end.
func (c *conn) serve() error {
	if err := c.handshake(); err != nil {
		c.s.counters.refused.Add(1)
		return err
	}
	c.s.known(c)
	c.s.counters.opened.Add(1)
	c.opened()
	c.endIfGone() // since it was let in
	c.log.Info("a client connected", "user", c.user(), "vhost", c.vhost, "name", c.client.name)
	defer c.end()
	for {
		f, err := c.readFrame()
		if err == nil {
			err = c.handle(f)
		}
		if err == nil {
			continue
		}
		x, ok := errors.AsType[*fault](err)
		if !ok || c.isClosing() {
			return err
		}
		c.s.counters.failed.Add(1)
		if err := c.awaitClose(x); err != nil {
			return err
		}
	}
}

// finish tells the log how the connection ended, and the client if it was not told.
func (c *conn) finish(err error) {
	switch {
	case errors.Is(err, errClosed), errors.Is(err, io.EOF):
		c.log.Debug("a client went", "error", err)
	default:
		c.log.Info("a connection ended", "error", err)
	}
}

// end gives back what the connection holds, once.
func (c *conn) end() {
	if c.ended {
		return
	}
	c.ended = true
	c.stop()
	ctx, stop := context.WithTimeout(context.Background(), endWait)
	defer stop()
	for _, ch := range c.openChannels() {
		c.drop(ctx, ch)
	}
	if c.owner != nil {
		c.owner.Finish(ctx)
	}
}

// cut ends the connection without a word. It may be called from any goroutine.
func (c *conn) cut() {
	c.stop()
	_ = c.nc.Close()
}

// force closes the connection by the server's will: 320.
func (c *conn) force(why string) {
	c.mu.Lock()
	greeted := c.greeted
	c.mu.Unlock()
	if !greeted { // it may speak anything
		c.cut()
		return
	}
	c.sendClose(&fault{code: wire.ConnectionForced, text: why, hard: true})
	time.AfterFunc(closeWait, c.cut)
}

// opened has operators see the connection.
func (c *conn) opened() {
	c.mu.Lock()
	c.told = broker.ConnectionInfo{
		Name: c.nc.RemoteAddr().String() + " -> " + c.nc.LocalAddr().String(), Protocol: "AMQP 0-9-1", TLS: c.s.cfg.TLS != nil,
		User: c.user(), VHost: c.vhost, Peer: c.nc.RemoteAddr().String(), ClientName: c.client.name, Product: c.client.product,
	}
	c.mu.Unlock()
	c.owner.Show(c.show, func(why broker.Closing) { c.force(cmp.Or(why.Reason, "closed by an operator")) })
}

// show returns what operators are told.
func (c *conn) show() broker.ConnectionInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.told
	x.Channels, x.Received, x.Sent = len(c.channels), c.received.Load(), c.sent.Load()
	switch {
	case c.closing:
		x.State = broker.ConnectionClosing
	case c.blocking.on:
		x.State = broker.ConnectionBlocked
	default:
		x.State = broker.ConnectionRunning
	}
	return x
}

func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// sendClose sends connection.close, once.
func (c *conn) sendClose(f *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	c.closing = true
	c.out = wire.AppendMethod(c.out, 0, &wire.ConnectionClose{
		ReplyCode: uint16(f.code), ReplyText: f.Error(), ClassID: f.method.Class(), MethodID: f.method.Method(),
	})
	signal(c.news)
	signal(c.free)
}

// awaitClose closes the connection for a fault. What still comes is dropped, up to the
// client's answer.
func (c *conn) awaitClose(f *fault) error {
	c.log.Warn("a connection is closed for a fault of the client", "error", f)
	c.end()
	c.sendClose(f)
	if f.code == wire.FrameError { // what follows cannot be read
		c.linger()
		return f
	}
	time.AfterFunc(closeWait, c.cut)
	return nil
}

// linger gives the client time to read the last words: a socket that is closed with unread
// bytes loses them.
func (c *conn) linger() {
	_ = c.nc.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.nc, outLimit))
}

// send appends a method for the writer. It does not wait: the reader does, before each frame.
func (c *conn) send(channel uint16, m wire.Method) {
	c.mu.Lock()
	c.out = wire.AppendMethod(c.out, channel, m)
	c.mu.Unlock()
	signal(c.news)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
