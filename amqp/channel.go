package amqp

import (
	"context"
	"sync"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// channel is one channel of a connection. What is above mu's part belongs to the reader, or
// to the channel's frame queue while it has one.
type channel struct {
	c      *conn
	number uint16
	by     *hand // of who runs the frame
	sender *broker.Sender
	held   broker.Hold // why a publish had to wait last

	leave     func() // gives back what counts the channel
	closing   bool   // channel.close was sent: all but close and close-ok is dropped
	confirms  bool
	tx        *transaction
	unit      *broker.Unit // while a transaction is committed
	published uint64       // the number of the last publish in confirm mode
	prefetch  uint16       // of consumers to come (DEL-3)
	lastQueue string       // what an empty name means
	consumers map[string]*consumer
	replies   *consumer   // of answers to the channel's own requests; nil: none
	retired   []*consumer // cancelled, with deliveries that are unsettled
	content   content
	done      func(broker.Result) // takes results of publishes
	inline    broker.Result       // of the publish that is being made, if it is known at once

	// Guarded by the connection's mu.
	inFlight  int  // publishes without a result
	gone      bool // nothing is delivered any more
	timedOut  bool // the writer has sent channel.close
	delivered uint64
	unsettled unsettled
	results   []result

	told told // the writer's
}

// result is what a client is told of one publish.
type result struct {
	tag     uint64
	refused bool
}

// channel returns the open channel of a number; nil if there is none. It takes the connection's mu.
func (c *conn) channel(n uint16) *channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channels[n]
}

// openChannels copies the channels, so that the caller can drop them without holding mu.
func (c *conn) openChannels() []*channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*channel, 0, len(c.channels))
	for _, ch := range c.channels {
		all = append(all, ch)
	}
	return all
}

// openChannel takes the first frame of a channel.
func (c *conn) openChannel(f wire.Frame) error {
	id, err := wire.MethodOf(f.Payload)
	if f.Type != wire.FrameMethod || err != nil || id != wire.ChannelOpenID {
		if id == wire.ChannelCloseOKID {
			return nil
		}
		return refuse(wire.ChannelError, id, "expected 'channel.open'")
	}
	if f.Channel > c.chanMax {
		if n := len(c.openChannels()); n >= int(c.chanMax) {
			return refuse(wire.NotAllowed, id, "number of channels opened (%d) has reached the negotiated channel_max (%d)", n, c.chanMax)
		}
		return refuse(wire.NotAllowed, id, "channel %d is above the negotiated channel_max (%d)", f.Channel, c.chanMax)
	}
	sender, err := c.s.b.NewSender(c.ctx)
	if err != nil {
		return faultOf(err, id)
	}
	leaveUser, err := c.s.b.Connections.OpenChannel(c.ctx)
	if err != nil {
		return faultOf(err, id)
	}
	leaveVHost, err := c.s.b.Connections.OpenChannelIn(c.ctx, c.vhost)
	if err != nil {
		leaveUser()
		return faultOf(err, id)
	}
	leave := func() {
		leaveUser()
		if leaveVHost != nil { // else the vhost is being deleted, and the connection ends
			leaveVHost()
		}
	}
	ch := &channel{c: c, number: f.Channel, sender: sender, leave: leave, consumers: map[string]*consumer{}}
	ch.done = ch.result
	c.mu.Lock()
	c.channels[f.Channel] = ch
	c.mu.Unlock()
	c.s.counters.channels.Add(1)
	c.send(f.Channel, &wire.ChannelOpenOK{})
	return nil
}

// fail closes the channel for a fault (C-5).
func (ch *channel) fail(f *fault) {
	ch.c.log.Warn("a channel is closed for a fault of the client", "channel", ch.number, "error", f, "cause", f.cause)
	ch.closing = true
	ch.quit(ch.c.ctx)
	ch.send(&wire.ChannelClose{
		ReplyCode: uint16(f.code), ReplyText: f.Error(), ClassID: f.method.Class(), MethodID: f.method.Method(),
	})
}

// quit ends the consumers; what is unsettled returns (DEL-8). It waits until the queues know,
// but not beyond ctx's end, nor for long.
func (ch *channel) quit(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, endWait)
	defer stop()
	if ch.tx != nil {
		ch.tx.rollback(ch)
		ch.tx.end()
	}
	ch.c.mu.Lock()
	ch.gone = true
	open := ch.unsettled.takeAll()
	ch.results = nil
	ch.c.mu.Unlock()
	var all sync.WaitGroup
	for x := range ch.all() {
		all.Go(func() { x.finish(ctx) })
	}
	all.Wait()
	clear(ch.consumers)
	ch.retired, ch.replies = nil, nil
	ch.giveBack(open)
	ch.forget()
	ch.content = content{}
	ch.tx = nil
}

// drop ends a channel, and forgets it.
func (c *conn) drop(ctx context.Context, ch *channel) {
	ch.quit(ctx)
	c.mu.Lock()
	delete(c.channels, ch.number)
	c.mu.Unlock()
	c.s.counters.channels.Add(-1)
	ch.leave()
}

func (ch *channel) send(m wire.Method) { ch.c.send(ch.number, m) }

// catchUp waits until the queues have decided about what the channel has published and
// settled: a method that looks into a queue finds that done, as its client expects.
func (ch *channel) catchUp(id wire.MethodID) error {
	c := ch.c
	if err := c.awaitPublishes(c.life, &ch.inFlight); err != nil {
		return err
	}
	for x := range ch.all() {
		if !x.decided {
			continue
		}
		x.decided = false
		if err := x.c.Flush(c.ctx); err != nil && !returned(err) {
			return faultOf(err, id)
		}
	}
	return nil
}

// awaitPublishes waits until the queues have decided about publishes that are counted in n,
// which mu guards: what comes after them must not overtake them (AM-13).
func (c *conn) awaitPublishes(ctx context.Context, n *int) error {
	return c.await(ctx, func() bool { return *n == 0 })
}

// settleDown is awaitPublishes before an end, which does not wait for long.
func (c *conn) settleDown(n *int) {
	ctx, stop := context.WithTimeout(c.life, endWait)
	defer stop()
	_ = c.awaitPublishes(ctx, n) // those that are left go on without the channel
}
