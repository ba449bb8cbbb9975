package amqp

import (
	"cmp"
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
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/internal/wait"
)

// Sizes of buffers, in bytes.
const (
	firstRead = 4 << 10
	// outLimit is how much output may wait before nothing more is read from a client.
	outLimit = 1 << 20
)

// closeWait is how long a connection that is being closed waits for the client's answer, and
// then for the client to close the socket.
const closeWait = 5 * time.Second

// endWait bounds how long the end of a connection or channel waits until its consumers and
// its queues are gone: a client that comes back at once must not find them.
const endWait = 2 * time.Second

// unauthenticatedWait is the same for a client that has not logged in.
const unauthenticatedWait = time.Second

// conn is one connection.
type conn struct {
	s    *Server
	nc   net.Conn
	log  *slog.Logger
	life context.Context // ends with the connection
	stop context.CancelFunc

	// Of the reader.
	ctx       context.Context // of the broker's calls: life, with who makes them
	in        []byte
	from, to  int // of in: what was read and not parsed
	hand      hand
	owner     *connections.Connection
	unwatch   func()         // ends watching the login; nil: nobody does
	buffer    *broker.Buffer // of deliveries
	ended     bool
	vhost     string
	frameMax  uint32
	chanMax   uint16
	heartbeat time.Duration
	client    client
	lookAt    time.Time // for messages that have been under way for too long
	looks     bool      // the socket's deadline is the time to do so

	w           writer
	working     sync.WaitGroup // what runs beside the reader
	interrupted atomic.Bool    // beside.fault waits for the reader
	held        atomic.Bool    // publishes wait: what blocking.on says
	flow        atomic.Int32   // publishes that wait for a rate

	received, sent atomic.Uint64 // bytes
	// unfinished counts the publishes that are being read, and bytes of their headers.
	unfinished atomic.Int64
	txBytes    atomic.Int64 // that transactions hold
	waited     atomic.Int64 // nanoseconds for which the reader was held back
	asked      int64        // bytes of Incoming that it holds or waits for; guarded by that one's mu

	mu       sync.Mutex
	told     connections.ConnectionInfo // what operators are told of it that stays so; Name is empty until it is open
	channels map[uint16]*channel
	out      []byte        // frames to send
	news     chan struct{} // of capacity 1: there is something to send
	changed  sync.Cond     // of mu: there may be room in out or in the window, or nothing in the way
	blocking blocking
	beside   beside
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
	mechanism                 string
	properties                []byte // all that it says, as message.AppendTable writes it
	cancelNotify, authFailure bool
	blocked                   bool
}

// newConn prepares a connection; run serves it. frameMax starts at firstFrameMax, the limit until
// tune has agreed on another.
func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		s: s, nc: nc, log: s.log.With("client", nc.RemoteAddr().String()), frameMax: firstFrameMax,
		channels: make(map[uint16]*channel), news: make(chan struct{}, 1),
	}
	c.changed.L = &c.mu
	c.life, c.stop = context.WithCancel(context.Background())
	c.ctx = c.life
	c.w.c = c
	return c
}

var (
	// errClosed ends the reader after connection.close was read, and answered.
	errClosed = errors.New("amqp: closed by the client")
	// errAnswered ends it after connection.close-ok was read.
	errAnswered = errors.New("amqp: closed")
	// errOtherProtocol ends it after the header of this one was sent.
	errOtherProtocol = errors.New("amqp: the client speaks another protocol")
)

// run serves the connection to its end.
func (c *conn) run() {
	defer c.cut()
	var writing sync.WaitGroup
	wroteAll := false
	writing.Go(func() {
		if wroteAll = c.w.run(); !wroteAll {
			c.cut() // the reader ends as well
		}
	})
	err := c.serve()
	c.finish(err)
	c.mu.Lock()
	c.done = true
	c.mu.Unlock()
	wait.Wake(c.news)
	if writing.Wait(); wroteAll {
		c.linger(err)
	}
}

// serve reads until the end.
func (c *conn) serve() error {
	defer c.end() // of one that logged in and went no further, too
	if err := c.handshake(); err != nil {
		c.s.counters.refused.Add(1)
		return err
	}
	c.s.counters.opened.Add(1)
	c.opened()
	c.watchLogin()
	c.endIfGone() // since it was let in
	c.log.Info("a client connected", "user", c.user(), "vhost", c.vhost, "name", c.client.name)
	for {
		f, err := c.readFrame()
		if err == nil {
			err = c.handle(f)
		}
		if why := c.takeFault(); why != nil {
			err = why
		}
		if err == nil {
			continue
		}
		if err := c.failed(err); err != nil {
			return err
		}
	}
}

// failed returns nil if the connection is to be closed for a fault, and goes on to the
// client's answer.
func (c *conn) failed(err error) error {
	x, told := errors.AsType[*fault](err)
	if told || errors.Is(err, io.EOF) {
		c.awaitBeside() // what came before
	}
	if !told || c.isClosing() {
		return err
	}
	_ = c.takeFault() // the first one is told
	return c.awaitClose(x)
}

// finish tells the log how the connection ended, and the client if it was not told.
func (c *conn) finish(err error) {
	switch {
	case errors.Is(err, errClosed), errors.Is(err, errAnswered), errors.Is(err, io.EOF), c.owner == nil: // unauthenticated clients must not fill a disk
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
	if c.unwatch != nil {
		c.unwatch()
	}
	c.stop()
	c.endBeside()
	c.working.Wait()
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
	greeted, done := c.greeted, c.done
	c.mu.Unlock()
	if !greeted || done { // it may speak anything, or has been told all
		c.cut()
		return
	}
	c.sendClose(&fault{code: wire.ConnectionForced, text: why, hard: true})
	time.AfterFunc(closeWait, c.cut)
}

// opened has operators see the connection.
func (c *conn) opened() {
	c.mu.Lock()
	c.told = connections.ConnectionInfo{
		Name: c.nc.RemoteAddr().String() + " -> " + c.nc.LocalAddr().String(), Protocol: "AMQP 0-9-1", TLS: c.s.cfg.TLS != nil,
		User: c.user(), VHost: c.vhost, Peer: c.nc.RemoteAddr().String(), Local: c.nc.LocalAddr().String(),
		ClientName: c.client.name, Product: c.client.product, Mechanism: c.client.mechanism, Properties: c.client.properties,
		FrameMax: c.frameMax, ChannelMax: uint32(c.chanMax), HeartbeatSeconds: uint32(c.heartbeat / time.Second), // of 16 bits
	}
	c.mu.Unlock()
	c.owner.Show(c.show, func(why connections.Closing) { c.force(cmp.Or(why.Reason, "closed by an operator")) })
}

// show returns what operators are told.
func (c *conn) show() connections.ConnectionInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.told
	x.Channels, x.Received, x.Sent = len(c.channels), c.received.Load(), c.sent.Load()
	switch {
	case c.closing:
		x.State = connections.ConnectionClosing
	case c.blocking.on:
		x.State = connections.ConnectionBlocked
	case c.flow.Load() > 0:
		x.State = connections.ConnectionFlow
	default:
		x.State = connections.ConnectionRunning
	}
	return x
}

// isClosing reports whether connection.close was sent: from then on only its answer counts. It
// takes mu.
func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// isEnding reports that nothing more is run for the client.
func (c *conn) isEnding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endingLocked()
}

func (c *conn) endingLocked() bool { return c.closing || c.beside.fault != nil }

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
	wait.Wake(c.news)
	c.changed.Broadcast()
}

// tell closes the connection for a fault.
func (c *conn) tell(f *fault) {
	c.s.counters.failed.Add(1)
	c.log.Warn("a connection is closed for a fault of the client", "error", f, "cause", f.cause)
	c.end()
	c.sendClose(f)
}

// awaitClose closes the connection for a fault. What still comes is dropped, up to the
// client's answer.
func (c *conn) awaitClose(f *fault) error {
	c.tell(f)
	if f.code == wire.FrameError { // what follows cannot be read
		return f
	}
	time.AfterFunc(closeWait, c.cut)
	return nil
}

// linger waits for the client to close the socket after the last words to it, and drops what
// still comes: a socket that is closed with unread bytes loses these words, and clients that
// find the end of the stream before they have read close-ok take it for a failure.
func (c *conn) linger(why error) {
	_, failed := errors.AsType[*fault](why)
	wait := closeWait
	switch {
	case errors.Is(why, errClosed):
	case failed, errors.Is(why, errOtherProtocol):
		if end, ok := c.nc.(interface{ CloseWrite() error }); ok {
			_ = end.CloseWrite() // it may not answer
		}
	default:
		return
	}
	if c.owner == nil {
		wait = unauthenticatedWait
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(wait))
	_, _ = io.Copy(io.Discard, c.nc)
}

// send appends a method for the writer. It does not wait: the reader does, before each frame.
func (c *conn) send(channel uint16, m wire.Method) {
	c.mu.Lock()
	c.out = wire.AppendMethod(c.out, channel, m)
	c.mu.Unlock()
	wait.Wake(c.news)
}
