package amqp

import (
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
	// busyRead is the size of the buffers that connections borrow while much arrives.
	busyRead = 64 << 10
	// outLimit is how much output may wait before reading from the connection stops.
	outLimit = 1 << 20
	// maxResults is how many results of publishes may wait for the client before reading from the connection stops.
	maxResults = 64 << 10
)

// closeWait is how long a closing connection waits for the client's answer, and then for the client
// to close the socket.
const closeWait = 5 * time.Second

// endWait bounds how long the end of a connection or channel waits until its consumers and its
// queues are gone: a client that reconnects at once must not find them.
const endWait = 2 * time.Second

// heldWait bounds how long the close of a connection waits for publishes that quotas or alarms hold
// back (AM-16).
const heldWait = 5 * time.Second

// goneWait bounds how long a connection whose client has gone finishes what it has read. Nobody gets
// the answers, and until the end other clients see its consumers and exclusive queues.
const goneWait = 5 * time.Second

// unauthenticatedWait is closeWait for a client that has not logged in.
const unauthenticatedWait = time.Second

// conn is one connection.
type conn struct {
	s    *Server
	nc   net.Conn
	log  *slog.Logger
	life context.Context // ends with the connection
	stop context.CancelFunc

	// The reader owns the following.
	ctx       context.Context // context of calls of the broker: life, with the identity of the caller
	in        []byte
	own       []byte  // the connection's own buffer while in is lent
	lent      *[]byte // has in's memory; nil: that is the connection's own
	brought   int     // bytes of the last read
	from, to  int     // part of in that was read and not yet parsed
	hand      hand
	owner     *connections.Connection
	unwatch   func()         // ends the watch on the login; nil: none
	buffer    *broker.Buffer // of deliveries
	ended     bool
	vhost     string
	frameMax  uint32
	chanMax   uint16
	heartbeat time.Duration
	openBy    time.Time // when the handshake must have ended; zero: it has ended, or may take for ever
	client    client
	lookAt    time.Time // when to check for messages that take too long
	looks     bool      // the socket's deadline is lookAt

	w           writer
	working     sync.WaitGroup // goroutines beside the reader
	interrupted atomic.Bool    // beside.fault waits for the reader
	held        atomic.Bool    // publishes wait; the same as blocking.on
	flow        atomic.Int32   // publishes that wait for a rate

	received, sent atomic.Uint64 // bytes

	rights broker.SendRights // of its channels
	// unfinished counts the publishes that are being read and the bytes of their headers.
	unfinished atomic.Int64
	txBytes    atomic.Int64 // held by transactions
	waited     atomic.Int64 // nanoseconds for which the reader was held back
	asked      int64        // bytes of Incoming that it holds or waits for; Incoming's mu guards it

	mu       sync.Mutex
	info     connections.ConnectionInfo // what operators see of it and never changes; Name is empty until the connection is open
	channels map[uint16]*channel
	out      []byte        // frames to send
	aside    int           // bytes that calls of basic.get may add to out
	news     chan struct{} // of capacity 1: there is something to send
	changed  sync.Cond     // on mu: out or the window may have room, or publishes may continue
	blocking blocking
	beside   beside
	wakened  []*consumer // consumers with deliveries to take
	settling []*channel  // channels with results of publishes
	results  int         // in these
	inFlight int         // publishes without a result
	greeted  bool        // the protocol header has arrived
	closing  bool        // connection.close was sent, or is not worth sending
	done     bool        // no more output follows
}

// client is what a client says about itself.
type client struct {
	name, product             string // product and its version
	mechanism                 string
	properties                []byte // all its properties, encoded by message.AppendTable
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
	// errClosed ends the reader after connection.close was read and answered.
	errClosed = errors.New("amqp: closed by the client")
	// errAnswered ends the reader after connection.close-ok was read.
	errAnswered = errors.New("amqp: closed")
	// errOtherProtocol ends the reader after this protocol's header was sent.
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
	defer c.end() // also for a connection that logged in and came no further
	if err := c.handshake(); err != nil {
		c.s.counters.refused.Add(1)
		return err
	}
	c.s.counters.opened.Add(1)
	defer c.s.counters.closed.Add(1)
	c.opened()
	c.watchLogin()
	c.endIfGone() // its user or vhost may have gone during the handshake
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

// failed decides how to continue after an error. It returns nil if it has sent connection.close for
// a fault; the reader then continues until the client's answer.
func (c *conn) failed(err error) error {
	x, known := errors.AsType[*fault](err)
	switch { // run the frames that came before the error
	case known:
		c.awaitBeside()
	case errors.Is(err, io.EOF):
		c.finishBeside()
	}
	if !known || c.isClosing() {
		return err
	}
	_ = c.takeFault() // the first fault counts
	return c.awaitClose(x)
}

// finish logs how the connection ended.
func (c *conn) finish(err error) {
	switch {
	case errors.Is(err, errClosed), errors.Is(err, errAnswered), errors.Is(err, io.EOF), c.owner == nil: // unauthenticated clients must not fill a disk
		c.log.Debug("a client went", "error", err)
	default:
		c.log.Info("a connection ended", "error", err)
	}
}

// end releases what the connection holds, once.
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

// cut closes the connection without notice. It may be called from any goroutine.
func (c *conn) cut() {
	c.stop()
	_ = c.nc.Close()
}

// force closes the connection on behalf of the server, with the reply code 320.
func (c *conn) force(why string) {
	c.mu.Lock()
	greeted, done := c.greeted, c.done
	c.mu.Unlock()
	if !greeted || done { // its protocol is unknown, or all is sent already
		c.cut()
		return
	}
	c.sendClose(&fault{code: wire.ConnectionForced, text: why, hard: true})
	time.AfterFunc(closeWait, c.cut)
}

// isClosing reports whether connection.close was sent: from then on only its answer counts. It
// takes mu.
func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// isEnding reports whether the connection is ending, so that no further frames of the client are run.
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

// report closes the connection because of a fault.
func (c *conn) report(f *fault) {
	c.s.counters.failed.Add(1)
	c.log.Warn("a connection is closed because of a fault of the client", "error", f, "cause", f.cause)
	c.end()
	c.sendClose(f)
}

// awaitClose closes the connection because of a fault. It drops all frames until the client's
// answer.
func (c *conn) awaitClose(f *fault) error {
	c.report(f)
	if f.code == wire.FrameError { // the following frames cannot be read
		return f
	}
	time.AfterFunc(closeWait, c.cut)
	return nil
}

// linger waits for the client to close the socket after the last output, and drops what still
// arrives. A socket that is closed with unread bytes loses that output, and clients that meet the
// end of the stream before close-ok report a failure.
func (c *conn) linger(why error) {
	_, failed := errors.AsType[*fault](why)
	wait := closeWait
	switch {
	case errors.Is(why, errClosed):
	case failed, errors.Is(why, errOtherProtocol):
		if end, ok := c.nc.(interface{ CloseWrite() error }); ok {
			_ = end.CloseWrite() // the client may not answer
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

// send appends a method for the writer. It does not wait; the reader waits for room before each
// frame. Methods of open channels go through channel.send.
func (c *conn) send(channel uint16, m wire.Method) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing && m.ID() != wire.ConnectionCloseOKID { // nothing follows connection.close
		return
	}
	c.out = wire.AppendMethod(c.out, channel, m)
	wait.Wake(c.news)
}
