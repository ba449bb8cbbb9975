package amqp

import (
	"errors"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// Bounds of what a connection does beside its reader.
const (
	// maxMethodsBeside is how many methods of one connection run beside the reader, each of
	// another channel; others wait for their turn.
	maxMethodsBeside = 16
	// maxBesideBytes is how much may wait behind them; beyond it nothing is read.
	maxBesideBytes = 1 << 20
	// maxRatedBytes is the same while a rate holds a channel back: many may be, and for long.
	maxRatedBytes = 64 << 10
	// frameBytes is what a frame costs that waits, beyond its payload.
	frameBytes = 64
)

// hand is what it takes to run frames; the reader has one, and each goroutine beside it.
type hand struct {
	now     time.Time // a moment ago: when frames were read, or taken
	names   wire.Names
	publish broker.Publish // used again for every message
}

// beside is the work of a connection that its reader does not do itself. Guarded by the
// connection's mu.
type beside struct {
	frameQueues map[uint16]*frameQueue // by channel number
	ready       []*frameQueue          // those that nobody runs, in the order of their turns
	hands       int                    // goroutines
	bytes       int                    // of frames that wait or run
	rated       int                    // frame queues that a rate has held back
	over        bool                   // no goroutine begins any more
	fault       error                  // ends the connection; the reader takes it
}

// frameQueue holds the frames of one channel number, in their order, from a method that waits for
// the broker, or a publish that a rate holds back, on to the last that came before that one's end. As
// long as there is a frame queue, the number's channel belongs to it and not to the reader.
type frameQueue struct {
	number uint16
	frames []wire.Frame
	rated  bool // a rate has held it back

	waited func() // while a rate does: ends that; nil: none does
	timer  *time.Timer
}

// slow reports whether a frame may wait for more than the queues' windows: for the catalog, a
// queue's answer, or its consumers.
func slow(f wire.Frame) bool {
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
	default:
		return id.Class() == wire.ClassExchange || id.Class() == wire.ClassQueue
	}
}

// route returns the channel of a frame, nil if it is not open, for the reader to run it; or it
// has the frame run beside, after all frames of its channel before it.
func (c *conn) route(f wire.Frame) (ch *channel, elsewhere bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.beside
	l := b.frameQueues[f.Channel]
	switch {
	case l != nil:
	case c.channels[f.Channel] == nil || !slow(f):
		return c.channels[f.Channel], false
	default:
		l = c.newFrameQueue(f.Channel)
		c.makeReady(l)
	}
	c.append(l, f)
	return nil, true
}

// newFrameQueue begins the frame queue of a channel. The caller holds mu.
func (c *conn) newFrameQueue(channel uint16) *frameQueue {
	l := &frameQueue{number: channel}
	if c.beside.frameQueues == nil {
		c.beside.frameQueues = make(map[uint16]*frameQueue)
	}
	c.beside.frameQueues[channel] = l
	return l
}

// append has a frame run in a frame queue, after those that wait there. The caller holds mu.
func (c *conn) append(l *frameQueue, f wire.Frame) {
	c.beside.bytes += frameBytes + len(f.Payload)
	f.Payload = append([]byte(nil), f.Payload...) // the reader's buffer is used again
	l.frames = append(l.frames, f)
}

// makeReady gives a frame queue its turn. The caller holds mu.
func (c *conn) makeReady(l *frameQueue) {
	b := &c.beside
	b.ready = append(b.ready, l)
	if b.hands < maxMethodsBeside && !b.over {
		b.hands++
		c.working.Go(c.work)
	}
}

// work runs frames beside the reader as long as there are some, one of each frame queue at a time.
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

// ran takes the first frame of a frame queue away, which was run, and the frame queue if that was its last one.
func (c *conn) ran(l *frameQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.beside
	b.bytes -= frameBytes + len(l.frames[0].Payload)
	l.frames[0] = wire.Frame{}
	if l.frames = l.frames[1:]; len(l.frames) > 0 {
		b.ready = append(b.ready, l)
	} else {
		delete(b.frameQueues, l.number)
		if l.rated {
			b.rated--
		}
	}
	c.changed.Broadcast()
}

// nextFrameQueue returns the frame queue whose turn it is; nil: there is none, and the caller ends.
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

// runBeside runs one frame, unless the connection ends.
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

// most is how many bytes may wait beside the reader.
func (b *beside) most() int {
	if b.rated > 0 {
		return maxRatedBytes
	}
	return maxBesideBytes
}

// interrupt has the reader end the connection for an error, the first one if there are more.
func (c *conn) interrupt(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.beside.fault != nil {
		return
	}
	c.beside.fault = err
	c.interrupted.Store(true)
	c.changed.Broadcast()
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // it may wait for the client
}

// takeFault returns the error that interrupted the reader, once; nil: none did.
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

// awaitBeside waits until all that was read is done. What is left when the connection ends,
// or after a fault beside, is dropped.
func (c *conn) awaitBeside() {
	_ = c.await(c.life, func() bool { return len(c.beside.frameQueues) == 0 })
}
