package amqp

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/quorate/quorate/amqp/wire"
)

// await waits until ok, or until ctx ends. ok is called under mu whenever something has changed.
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

// hasRoom returns false while too much output waits, too many publishes await results, too many results wait for the
// client, or too much waits beside the reader. At the connection's end the reader continues, for the client's answer.
func (c *conn) hasRoom() bool {
	return c.hasRoomBeside() && c.beside.bytes < c.beside.most() || c.endingLocked()
}

// hasRoomBeside is hasRoom for frames that were read already.
func (c *conn) hasRoomBeside() bool {
	return len(c.out) <= outLimit && c.inFlight < c.s.cfg.PublishWindow && c.results < maxResults
}

// readFrame returns the next frame, skipping heartbeats. Its payload is valid until the next call.
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

// makeRoom moves what is not parsed to the front of a buffer with room for at least need bytes. While more arrives at a
// time than the connection's own buffer holds, it borrows a larger one: each read has its cost, whatever it brings. It gives
// that back when little came last, since it may wait for long then.
func (c *conn) makeRoom(need int) {
	left := c.in[c.from:c.to]
	was := c.lent
	switch {
	case need > len(c.in):
		c.in, c.own, c.lent = make([]byte, min(max(need, 2*len(c.in), firstRead), max(need, int(c.frameMax)))), nil, nil
	case c.to == len(c.in) && was == nil && len(c.in) < busyRead && c.chanMax > 0: // it has logged in
		c.own, c.lent = c.in, c.s.lendRead()
		c.in = *c.lent
	case was != nil && len(left) == 0 && c.brought < busyRead/2:
		c.in, c.own, c.lent = c.own, nil, nil
	}
	c.from, c.to = 0, copy(c.in, left)
	if was != nil && c.lent == nil {
		c.s.reads.Put(was)
	}
}

// lendRead returns a buffer of busyRead bytes.
func (s *Server) lendRead() *[]byte {
	if b, is := s.reads.Get().(*[]byte); is {
		return b
	}
	b := make([]byte, busyRead)
	return &b
}

// fill reads more into a buffer with room for at least need bytes.
func (c *conn) fill(need int) error {
	c.makeRoom(need)
	c.hand.now = time.Now()
	silent := c.hand.now.Add(2 * c.heartbeat) // when the client has been silent for too long
	for {
		if err := c.limitRead(silent); err != nil {
			return err
		}
		n, err := c.nc.Read(c.in[c.to:])
		c.to += n
		c.brought = n
		c.received.Add(uint64(n)) // not negative
		now := time.Now()
		waits := c.heartbeat == 0 || now.Before(silent)
		if c.hand.now = now; n > 0 {
			return nil
		}
		switch {
		case err == nil:
			return io.ErrNoProgress
		case c.looks && waits && errors.Is(err, os.ErrDeadlineExceeded): // or a fault beside, which limitRead reports
		default:
			return err
		}
	}
}

// limitRead sets the socket's deadline: for a missing heartbeat, or to check for messages that take
// too long.
func (c *conn) limitRead(silent time.Time) error {
	var at time.Time
	set := c.looks || c.heartbeat > 0
	if c.heartbeat > 0 {
		at = silent
		if !c.openBy.IsZero() && c.openBy.Before(at) {
			at = c.openBy
		}
	}
	c.looks = c.unfinished.Load() > 0
	if c.looks {
		set = true
		if look := c.look(c.hand.now); at.IsZero() || look.Before(at) {
			at = look
		}
	}
	if set {
		if err := c.nc.SetReadDeadline(at); err != nil {
			return err
		}
	}
	if c.interrupted.Load() { // interrupt may have come before this deadline was set
		return os.ErrDeadlineExceeded
	}
	return nil
}
