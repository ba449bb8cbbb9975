package amqp

import (
	"errors"
	"time"

	"github.com/quorate/quorate/amqp/wire"
)

// errPaused reports that a publish was not run, as a rate holds its channel back: it is run again later.
var errPaused = errors.New("amqp: a rate holds the channel back")

// awaitQuotas is where a publish waits for quotas (VH-14). What holds too much, a vhost or the queues of a user, holds the whole
// connection back, and clients are told. A rate holds back its channel alone, which errPaused tells.
func (ch *channel) awaitQuotas() error {
	c := ch.c
	for {
		h, held := ch.sender.Held(c.vhost)
		if !held || c.isEnding() {
			return nil
		}
		if ch.held = h; !h.Stored {
			return errPaused
		}
		ended := h.Waits()
		c.mu.Lock()
		c.blocking.stored = h
		c.mu.Unlock()
		c.block(h.Error().Error(), "")
		err := c.holdBack(ch.by, func() bool { return !c.held.Load() || c.endingLocked() })
		if ended(); err != nil {
			return err
		}
	}
}

// pause has a publish that the reader has met wait in a frame queue.
func (c *conn) pause(ch *channel, f wire.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.newFrameQueue(f.Channel)
	c.append(l, f)
	c.park(l, ch)
}

// park lays a frame queue aside until its channel may look again whether it may publish: no hand waits with it.
// The caller holds mu.
func (c *conn) park(l *frameQueue, ch *channel) {
	if c.beside.over {
		return
	}
	if !l.rated {
		l.rated = true
		c.beside.rated++
	}
	c.flow.Add(1)
	l.waited = ch.held.Waits()
	l.timer = time.AfterFunc(ch.held.For, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if l.waited != nil {
			c.unpark(l)
			c.makeReady(l)
		}
	})
}

// unpark ends the wait of a frame queue. The caller holds mu.
func (c *conn) unpark(l *frameQueue) {
	c.flow.Add(-1)
	l.waited()
	l.waited = nil
}

// endBeside lets no goroutine begin any more, before all are waited for.
func (c *conn) endBeside() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beside.over = true
	for _, l := range c.beside.frameQueues {
		if l.waited != nil {
			l.timer.Stop()
			c.unpark(l)
		}
	}
}
