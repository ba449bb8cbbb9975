package amqp

import (
	"io"
	"time"

	"github.com/quorate/quorate/amqp/wire"
)

// awaitRoom waits while there is too much output, or too many publishes are on their way.
func (c *conn) awaitRoom() error {
	for {
		c.mu.Lock()
		full := len(c.out) > outLimit || c.inFlight >= c.s.cfg.PublishWindow
		c.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-c.room:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
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
	n, err := c.nc.Read(c.in[c.to:])
	c.to += n
	c.received.Add(uint64(n)) //nolint:gosec // not negative
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
