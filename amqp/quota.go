package amqp

import (
	"errors"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/message"
)

// errPaused reports that a publish did not run because a rate holds its channel back. It runs
// later, unless it is dropped.
var errPaused = errors.New("amqp: a rate holds the channel back")

// awaitQuotas makes a publish wait for quotas (VH-14). If a vhost or a user's queues hold too much,
// the whole connection is held back, and the client is notified. A rate holds back only the
// channel; awaitQuotas then returns errPaused.
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
		err := c.awaitNotHeld(ch.by)
		if ended(); err != nil {
			return err
		}
	}
}

// awaitQueues makes a content wait for quotas of the queues that its message is for (VH-15, VH-17).
// It does so after the header was read, so that no body takes memory meanwhile.
func (ch *channel) awaitQueues() error {
	c, x := ch.c, &ch.content
	x.resume(c)
	p := &ch.by.publish
	*p = broker.Publish{
		Message: message.Message{Properties: x.message.Properties, Headers: x.message.Headers, Exchange: x.m.Exchange},
		VHost:   c.vhost, RoutingKey: x.m.RoutingKey, Mandatory: x.m.Mandatory, Sender: ch.sender, Chance: x.chance,
	}
	c.s.b.NoteQueues(c.ctx, p)
	x.chance = p.Chance
	*p = broker.Publish{}
	x.pause(c)
	err := ch.awaitQuotas()
	if err == nil {
		x.resume(c)
	}
	return err
}

// pause moves a publish from the reader into a frame queue.
func (c *conn) pause(ch *channel, f wire.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.newFrameQueue(f.Channel)
	c.append(l, f)
	c.park(l, ch)
}

// park sets a frame queue aside until its channel may try to publish again. No goroutine waits
// meanwhile. mu is held.
func (c *conn) park(l *frameQueue, ch *channel) {
	switch {
	case c.beside.over:
		return
	case c.beside.dropping:
		c.remove(l)
		c.changed.Broadcast()
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

// unpark ends the wait of a frame queue. mu is held.
func (c *conn) unpark(l *frameQueue) {
	c.flow.Add(-1)
	l.waited()
	l.waited = nil
}

// unparkAll ends the waits of all frame queues that are set aside, and returns these. mu is held.
func (c *conn) unparkAll() (parked []*frameQueue) {
	for _, l := range c.beside.frameQueues {
		if l.waited != nil {
			l.timer.Stop()
			c.unpark(l)
			parked = append(parked, l)
		}
	}
	return parked
}

// endBeside prevents new goroutines before the caller waits for the running ones.
func (c *conn) endBeside() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beside.over = true
	c.unparkAll()
}

// dropHeld drops publishes that are held back now or later, with the frames behind them on their
// channels.
func (c *conn) dropHeld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beside.dropping = true
	for _, l := range c.unparkAll() {
		c.remove(l)
	}
	c.changed.Broadcast() // wakes goroutines beside the reader that wait with a blocked publish
}
