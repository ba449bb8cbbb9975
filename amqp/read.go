package amqp

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/quorate/quorate/amqp/wire"
)

// await waits until ok, which is asked under mu when something has changed, or until ctx ends.
func (c *conn) await(ctx context.Context, ok func() bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok() {
		return nil
	}
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})()
	for !ok() {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.changed.Wait()
	}
	return nil
}

// hasRoom is false while there is too much output, too many publishes are on their way, or
// too much waits beside the reader.
func (c *conn) hasRoom() bool {
	return c.hasRoomBeside() && c.beside.bytes < maxBesideBytes || c.beside.fault != nil
}

// hasRoomBeside is hasRoom for what was read.
func (c *conn) hasRoomBeside() bool {
	return len(c.out) <= outLimit && c.inFlight < c.s.cfg.PublishWindow
}

// readFrame returns the next frame that is no heartbeat; its payload is valid until the
// next call.
func (c *conn) readFrame() (wire.Frame, error) {
	for {
		f, n, need, err := wire.ParseFrame(c.in[c.from:c.to], c.frameMax)
		if err != nil {
			return f, faultOf(err, 0)
		}
		if n > 0 {
			c.from += n
			if f.Type == wire.FrameHeartbeat {
				continue
			}
			return f, nil
		}
		if err := c.fill(need); err != nil {
			return f, err
		}
	}
}

// fill reads more, with room for need bytes in all.
func (c *conn) fill(need int) error {
	left := c.to - c.from
	switch {
	case need > len(c.in):
		size := min(max(need, 2*len(c.in), firstRead), max(need, int(c.frameMax)))
		grown := make([]byte, size)
		copy(grown, c.in[c.from:c.to])
		c.in = grown
	case c.from > 0:
		copy(c.in, c.in[c.from:c.to])
	}
	c.from, c.to = 0, left
	if c.heartbeat > 0 {
		if err := c.nc.SetReadDeadline(time.Now().Add(2 * c.heartbeat)); err != nil {
			return err
		}
	}
	if c.interrupted.Load() { // before the deadline was set
		return os.ErrDeadlineExceeded
	}
	n, err := c.nc.Read(c.in[c.to:])
	c.to += n
	c.received.Add(uint64(n)) // not negative
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
