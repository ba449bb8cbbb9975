package amqp

import (
	"context"
	"runtime"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/message"
)

const (
	// looseBytes is how much the content headers of one connection may hold without being counted by
	// Incoming.
	looseBytes = 64 << 10
	// keptHeader is the largest header whose memory a channel keeps for reuse.
	keptHeader = 1 << 10
	// fieldBytes is the memory cost of a table field in addition to its bytes.
	fieldBytes = 80
	// looksPerTimeout is how often, within the time limit of a message, a connection checks for
	// messages that exceed it.
	looksPerTimeout = 8
)

// begin starts a content, and the clock for its time limit.
func (ch *channel) begin() {
	x := &ch.content
	x.expected, x.header, x.chance = true, false, 0
	x.began, x.waited = ch.by.now, ch.c.waited.Load()
	x.loose = 1
	ch.c.unfinished.Add(x.loose)
}

// pause stops the clock of a content while a quota holds it back.
func (x *content) pause(c *conn) {
	x.paused, x.age = true, x.ageAt(time.Now(), c.waited.Load())
}

// resume lets the clock of a content continue from where it was stopped.
func (x *content) resume(c *conn) {
	if !x.paused {
		return
	}
	x.paused, x.began, x.waited = false, time.Now().Add(-x.age), c.waited.Load()
}

// ageAt returns how long a content has been arriving, not counting the time in which its connection was not read.
func (x *content) ageAt(now time.Time, waited int64) time.Duration {
	return now.Sub(x.began) - time.Duration(waited-x.waited)
}

// forget ends a content and releases what it holds.
func (ch *channel) forget() {
	x := &ch.content
	x.expected, x.header, x.paused = false, false, false
	ch.c.unfinished.Add(-x.loose)
	if x.cost > keptHeader {
		x.message = message.Message{}
	}
	x.loose, x.cost = 0, 0
	if x.charge.c != nil {
		ch.c.s.incoming.release(&x.charge)
		*x = content{}
	}
}

// holdHeader counts the header of a content. Small headers, and headers whose bodies follow at
// once, count for their connection alone.
func (ch *channel) holdHeader() (held bool, err error) {
	x := &ch.content
	if ch.c.unfinished.Add(x.cost) <= looseBytes {
		x.loose += x.cost
		return true, nil
	}
	ch.c.unfinished.Add(-x.cost)
	return ch.hold(x.cost)
}

// countFields counts the fields of a table with those nested in them: what decoding allocates
// beyond the bytes on the wire. Depth is bounded by the decoder.
func countFields(t message.Table) (n int64) {
	for i := range t {
		n += 1 + countNested(t[i].Value)
	}
	return n
}

// countNested counts what is inside a value; the elements of an array cost as much as fields do.
func countNested(v message.Value) (n int64) {
	if t, ok := v.AsTable(); ok {
		return countFields(t)
	}
	a, _ := v.AsArray()
	for _, x := range a {
		n += 1 + countNested(x)
	}
	return n
}

// hold counts n more bytes of the content and waits until there is room for them. It holds nothing
// if the connection ends meanwhile.
func (ch *channel) hold(n int64) (held bool, err error) {
	c, x := ch.c, &ch.content
	if x.charge.c == nil { // set before others can see it
		x.charge.c = c
	}
	in := c.s.incoming
	w, over := in.take(&x.charge, n)
	if over {
		return false, refuse(wire.ResourceError, wire.BasicPublishID,
			"incomplete messages hold more than the %d bytes of limits.incoming_connection_bytes: "+
				"complete some before others begin, or use more connections", in.connectionBytes()).hardened()
	}
	if w == nil {
		return true, nil
	}
	began := time.Now()
	err = c.await(c.life, func() bool { return w.granted.Load() || c.endingLocked() })
	in.leave(w)
	d := time.Since(began)
	x.began = x.began.Add(d)
	if ch.by == &c.hand { // the reader's other channels wait with it
		x.waited += int64(d)
		c.waited.Add(int64(d))
	}
	return w.granted.Load() && err == nil, err
}

// gather adds a piece to the body. It allocates at most twice what has arrived, whatever size the
// header announces.
func (ch *channel) gather(piece []byte) (held bool, err error) {
	x := &ch.content
	if need := len(x.buf) + len(piece); need > cap(x.buf) {
		room := min(max(need, 2*cap(x.buf)), int(x.size)) // bounded by the largest body
		if held, err := ch.hold(int64(room - cap(x.buf))); !held {
			return false, err
		}
		x.buf = moved(x.buf, room)
	}
	x.buf = append(x.buf, piece...)
	runtime.Gosched() // so that a client that sends without a pause keeps nobody waiting
	return true, nil
}

// movedBytes is how much of a large body is copied before other goroutines get a turn.
const movedBytes = 64 << 10

// moved returns a copy of b with more room.
func moved(b []byte, room int) []byte {
	grown := make([]byte, 0, room)
	for from := 0; from < len(b); from += movedBytes {
		grown = append(grown, b[from:min(len(b), from+movedBytes)]...)
		runtime.Gosched()
	}
	return grown
}

// holdBack waits until ok, which is called under mu, on behalf of the goroutine that runs frames.
// While the reader waits, the clock of arriving messages stands still, unless others need their
// room.
func (c *conn) holdBack(by *hand, ok func() bool) error {
	c.mu.Lock()
	free := ok()
	c.mu.Unlock()
	if free {
		return nil
	}
	if by != &c.hand {
		return c.await(c.life, ok)
	}
	began := time.Now()
	defer func() { c.waited.Add(int64(time.Since(began))) }()
	for {
		ctx, stop := context.WithTimeout(c.life, c.lookEvery())
		err := c.await(ctx, ok)
		stop()
		if err == nil || c.life.Err() != nil {
			return err
		}
		if c.s.incoming.scarce() {
			c.endLate(func(x *content) time.Duration { return time.Since(x.began) })
		}
	}
}

func (c *conn) lookEvery() time.Duration { return max(1, c.s.incoming.allowed()/looksPerTimeout) }

// look ends messages that have taken too long. It checks only from time to time, and returns when to check next.
func (c *conn) look(now time.Time) time.Time {
	if now.Before(c.lookAt) {
		return c.lookAt
	}
	c.lookAt = now.Add(c.lookEvery())
	waited := c.waited.Load()
	c.endLate(func(x *content) time.Duration { return x.ageAt(now, waited) })
	return c.lookAt
}

// endLate closes the channels of messages that exceed the time limit. It runs in the reader and
// skips channels that the reader does not own.
func (c *conn) endLate(age func(*content) time.Duration) {
	most := c.s.incoming.allowed()
	for _, ch := range c.readersChannels() {
		if x := &ch.content; !x.expected || x.paused || age(x) <= most {
			continue
		}
		c.s.incoming.late.Add(1)
		f := refuse(wire.ResourceError, wire.BasicPublishID,
			"a message is incomplete %v after its basic.publish (timeouts.incoming): send bodies without pauses, or smaller ones", most)
		f.hard = false
		ch.fail(f)
	}
}

// readersChannels returns the channels without a frame queue.
func (c *conn) readersChannels() (own []*channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endingLocked() {
		return nil
	}
	for n, ch := range c.channels {
		if c.beside.frameQueues[n] == nil {
			own = append(own, ch)
		}
	}
	return own
}
