package amqp

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// Limits of the work of a connection that runs beside its reader.
const (
	// maxMethodsBeside is how many methods of one connection run beside the reader at the same
	// time, each on another channel. Others wait their turn.
	maxMethodsBeside = 16
	// maxBesideBytes limits the frames that wait behind them. Above it the connection is not read.
	maxBesideBytes = 1 << 20
	// maxRatedBytes is this limit while a rate holds a channel back. It is lower, because many
	// frames may then wait, and for long.
	maxRatedBytes = 64 << 10
	// frameBytes is the memory of a waiting frame without its payload.
	frameBytes = 64
)

// hand holds what a goroutine needs to run frames. The reader has one, and so has each goroutine
// beside it.
type hand struct {
	now     time.Time // when the frames were read or taken
	names   wire.Names
	publish broker.Publish // reused for every message
}

// beside is the work of a connection that runs beside its reader. The connection's mu guards it.
type beside struct {
	frameQueues map[uint16]*frameQueue // by channel number
	ready       []*frameQueue          // frame queues that no goroutine runs, in the order of their turns
	hands       int                    // running goroutines
	bytes       int                    // of waiting and running frames
	rated       int                    // frame queues that a rate holds back
	over        bool                   // no new goroutine may start
	dropping    bool                   // publishes that are held back are dropped
	fault       error                  // ends the connection; the reader picks it up
}

// frameQueue holds the frames of one channel number, in order. It begins with a method that waits
// for the broker, or with a publish that a rate holds back, and lasts until its last frame has run.
// While a channel number has a frame queue, its channel belongs to that queue and not to the
// reader.
type frameQueue struct {
	number uint16
	frames []wire.Frame
	rated  bool // a rate holds it back

	waited func() // ends the hold of a rate; nil: no rate holds it
	timer  *time.Timer
}

// slow reports whether a frame may wait for something other than the windows of queues: for the
// catalog, for a queue's answer, or for its consumers. mu is held.
func (ch *channel) slow(f wire.Frame) bool {
	if f.Type != wire.FrameMethod {
		return false
	}
	id, err := wire.MethodOf(f.Payload)
	if err != nil {
		return false
	}
	switch id {
	case wire.BasicConsumeID, wire.BasicCancelID, wire.BasicGetID, wire.BasicRecoverID, wire.BasicRecoverAsyncID,
		wire.TxCommitID, wire.ChannelCloseID:
		return true
	case wire.BasicAckID, wire.BasicNackID, wire.BasicRejectID:
		return ch.unsettled.got > 0
	default:
		return id.Class() == wire.ClassExchange || id.Class() == wire.ClassQueue
	}
}

// route returns the channel of a frame, for the reader to run it; nil if the channel is not open.
// If elsewhere is true, route has passed the frame to the channel's frame queue instead.
func (c *conn) route(f wire.Frame) (ch *channel, elsewhere bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, l := c.channels[f.Channel], c.beside.frameQueues[f.Channel]
	switch {
	case l != nil:
	case ch == nil || !ch.slow(f):
		return ch, false
	default:
		l = c.newFrameQueue(f.Channel)
		c.makeReady(l)
	}
	c.append(l, f)
	return nil, true
}

// newFrameQueue begins the frame queue of a channel. mu is held.
func (c *conn) newFrameQueue(channel uint16) *frameQueue {
	l := &frameQueue{number: channel}
	if c.beside.frameQueues == nil {
		c.beside.frameQueues = make(map[uint16]*frameQueue)
	}
	c.beside.frameQueues[channel] = l
	return l
}

// append adds a frame to the end of a frame queue. mu is held.
func (c *conn) append(l *frameQueue, f wire.Frame) {
	c.beside.bytes += frameBytes + len(f.Payload)
	f.Payload = append([]byte(nil), f.Payload...) // the reader reuses its buffer
	l.frames = append(l.frames, f)
}

// makeReady gives a frame queue its turn: it starts another goroutine if there are not enough. mu
// is held.
func (c *conn) makeReady(l *frameQueue) {
	b := &c.beside
	b.ready = append(b.ready, l)
	if b.hands < maxMethodsBeside && !b.over {
		b.hands++
		c.working.Go(c.work)
	}
}

// work runs frames beside the reader while there are any, one of each frame queue at a time.
func (c *conn) work() {
	h := &hand{}
	for l := c.nextFrameQueue(); l != nil; l = c.nextFrameQueue() {
		c.mu.Lock()
		f := l.frames[0]
		c.mu.Unlock()
		switch err := c.runBeside(h, f); {
		case err == nil:
			c.ran(l)
		case errors.Is(err, errPaused):
			c.mu.Lock()
			c.park(l, c.channels[l.number])
			c.mu.Unlock()
		default:
			c.interrupt(err)
			c.ran(l)
		}
	}
}

// ran removes the first frame of a frame queue, which has run, and with the last frame the queue
// itself.
func (c *conn) ran(l *frameQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.beside
	b.bytes -= frameBytes + len(l.frames[0].Payload)
	l.frames[0] = wire.Frame{}
	if l.frames = l.frames[1:]; len(l.frames) > 0 {
		b.ready = append(b.ready, l)
	} else {
		c.remove(l)
	}
	c.changed.Broadcast()
}

// remove removes a frame queue, with the frames that are left in it. mu is held.
func (c *conn) remove(l *frameQueue) {
	b := &c.beside
	for _, f := range l.frames {
		b.bytes -= frameBytes + len(f.Payload)
	}
	delete(b.frameQueues, l.number)
	if l.rated {
		b.rated--
	}
}

// nextFrameQueue returns the frame queue whose turn it is; nil: none waits, and the calling goroutine ends.
func (c *conn) nextFrameQueue() *frameQueue {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.beside
	if len(b.ready) == 0 {
		b.hands--
		return nil
	}
	next := b.ready[0]
	b.ready[0] = nil
	b.ready = b.ready[1:]
	return next
}

// runBeside runs one frame unless the connection is ending.
func (c *conn) runBeside(h *hand, f wire.Frame) error {
	if err := c.life.Err(); err != nil || c.isEnding() {
		return err
	}
	if err := c.await(c.life, c.hasRoomBeside); err != nil {
		return err
	}
	h.now = time.Now()
	return c.runFrame(h, c.channel(f.Channel), f)
}

// most returns how many bytes may wait beside the reader.
func (b *beside) most() int {
	if b.rated > 0 {
		return maxRatedBytes
	}
	return maxBesideBytes
}

// interrupt makes the reader end the connection with an error; the first error counts.
func (c *conn) interrupt(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.beside.fault != nil {
		return
	}
	c.beside.fault = err
	c.interrupted.Store(true)
	c.changed.Broadcast()
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // the reader may be waiting for the client
}

// takeFault returns the error that interrupted the reader, once; or nil.
func (c *conn) takeFault() error {
	if !c.interrupted.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted.Store(false)
	_ = c.nc.SetReadDeadline(time.Time{})
	return c.beside.fault
}

// awaitBeside waits until all frames that were read have run. After heldWait it drops the publishes
// that are still held back, with the frames behind them. Frames that are left at the end of the
// connection, or after a fault beside the reader, are dropped too.
func (c *conn) awaitBeside() {
	ctx, stop := context.WithTimeout(c.life, heldWait)
	defer stop()
	if c.await(ctx, c.isDoneBeside) == nil {
		return
	}
	c.dropHeld()
	_ = c.await(c.life, c.isDoneBeside)
}

// finishBeside is awaitBeside for a client that has gone. No client is left for the confirms of
// publishes that are held back, nor for the answer of a method that takes longer than goneWait.
func (c *conn) finishBeside() {
	c.dropHeld()
	ctx, stop := context.WithTimeout(c.life, goneWait)
	defer stop()
	_ = c.await(ctx, c.isDoneBeside)
}

// isDoneBeside reports that no frames wait or run beside the reader. mu is held.
func (c *conn) isDoneBeside() bool { return len(c.beside.frameQueues) == 0 }
