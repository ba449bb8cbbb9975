package amqp

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/internal/wait"
)

// channel is one channel of a connection. The fields in front of those that the connection's mu
// guards belong to the reader, or to the channel's frame queue while it has one.
type channel struct {
	c      *conn
	number uint16
	by     *hand // the hand that runs the current frame
	sender *broker.Sender
	held   limits.Hold // why the last publish that waited had to wait

	leave     func() // ends the count of this channel
	closing   bool   // channel.close was sent: everything but close and close-ok is dropped
	confirms  bool
	tx        *transaction
	unit      *broker.Unit // set while a transaction commits
	published uint64       // number of the last publish in confirm mode
	prefetch  uint16       // of future consumers (DEL-3)
	lastQueue string       // the queue that an empty name stands for
	consumers map[string]*consumer
	replies   *consumer   // consumer of the replies to the channel's own requests; nil: none
	retired   []*consumer // cancelled consumers with unsettled deliveries
	settled   bool        // some of them have none left
	leaving   []*consumer // those that have ended, of which the queue may not have stored all decisions
	content   content
	done      func(broker.Result) // receives the results of publishes
	inline    broker.Result       // result of the current publish, if it is known at once

	// The connection's mu guards the following.
	inFlight  int  // publishes without a result
	gone      bool // no more deliveries
	timedOut  bool // the writer has sent channel.close
	lost      bool // the writer has ended consumers that are still in consumers or retired
	seen      seen
	delivered uint64
	unsettled unsettled
	results   []result

	confirmed confirmed // owned by the writer
}

// result is the result of one publish, as the client gets it.
type result struct {
	tag     uint64
	refused bool
}

// channel returns the open channel of a number, or nil. It takes the connection's mu.
func (c *conn) channel(n uint16) *channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channels[n]
}

// openChannels returns a copy of the channels, so that the caller can drop them without holding mu.
func (c *conn) openChannels() []*channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*channel, 0, len(c.channels))
	for _, ch := range c.channels {
		all = append(all, ch)
	}
	return all
}

// openChannel handles the first frame of a channel.
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
	sender, err := c.s.b.NewSender(c.ctx, &c.rights)
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
		if leaveVHost != nil { // otherwise the vhost is being deleted, and the connection ends
			leaveVHost()
		}
	}
	ch := &channel{c: c, number: f.Channel, sender: sender, leave: leave, consumers: map[string]*consumer{}}
	ch.done = ch.result
	c.mu.Lock()
	c.channels[f.Channel] = ch
	c.mu.Unlock()
	c.s.counters.channels.Add(1)
	c.owner.ChannelOpened()
	c.send(f.Channel, &wire.ChannelOpenOK{})
	return nil
}

// fail closes the channel because of a fault (C-5).
func (ch *channel) fail(f *fault) {
	if !ch.claimClose() {
		return
	}
	ch.c.s.counters.channelsFailed.Add(1)
	ch.c.log.Warn("a channel is closed because of a fault of the client", "channel", ch.number, "error", f, "cause", f.cause)
	ch.closing = true
	ch.quit(ch.c.ctx)
	ch.send(&wire.ChannelClose{
		ReplyCode: uint16(f.code), ReplyText: f.Error(), ClassID: f.method.Class(), MethodID: f.method.Method(),
	})
}

// claimClose ends deliveries, so that the writer does not close the channel too. It returns false if
// the writer has closed it already. It takes the connection's mu.
func (ch *channel) claimClose() bool {
	ch.c.mu.Lock()
	defer ch.c.mu.Unlock()
	ch.gone = true
	return !ch.timedOut
}

// quit ends the consumers; unsettled deliveries return to their queues (DEL-8). It waits until the
// queues know, but neither beyond ctx nor for long.
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
	ch.c.forgetResults(len(ch.results))
	ch.results = nil
	ch.c.mu.Unlock()
	var all sync.WaitGroup
	for _, x := range ch.oldestFirst(open) {
		learned := x.end()
		all.Go(func() { learned(ctx) })
	}
	all.Wait()
	_ = ch.c.await(ctx, ch.haveLeft) // what is left completes without the channel
	clear(ch.consumers)
	ch.retired, ch.leaving, ch.replies = nil, nil, nil
	select {
	case <-ch.giveBack(open):
	case <-ctx.Done():
	}
	ch.forget()
	ch.content = content{}
	ch.tx = nil
}

// oldestFirst returns the channel's consumers, those first that hold the oldest deliveries: a queue gets
// these back in front of later ones (AM-13).
func (ch *channel) oldestFirst(held []open) []*consumer {
	first := map[*consumer]int{}
	for i := range held {
		if _, older := first[held[i].x]; !older {
			first[held[i].x] = i
		}
	}
	place := func(x *consumer) int {
		if i, holds := first[x]; holds {
			return i
		}
		return len(held)
	}
	return slices.SortedFunc(ch.all(), func(a, b *consumer) int { return cmp.Compare(place(a), place(b)) })
}

// drop ends a channel and removes it.
func (c *conn) drop(ctx context.Context, ch *channel) {
	c.awaitConfirms(ch)
	ch.quit(ctx)
	c.mu.Lock()
	delete(c.channels, ch.number)
	c.mu.Unlock()
	c.s.counters.channels.Add(-1)
	c.owner.ChannelClosed()
	ch.leave()
}

// send appends a method for the writer, unless the client must get nothing more of the channel.
func (ch *channel) send(m wire.Method) {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch.silent() {
		return
	}
	c.out = wire.AppendMethod(c.out, ch.number, m)
	wait.Wake(c.news)
}

// silent reports that the server has closed the connection, or the writer the channel, while a frame
// of the channel ran: its answer would come behind the close. mu is held.
func (ch *channel) silent() bool { return ch.c.closing || ch.timedOut && !ch.closing }

// catchUp waits until the queues have decided on what the channel has published and settled. A
// method that looks into a queue then sees the result, as its client expects. It fails if the server
// has ended a consumer before what its client had settled was stored.
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
		if f := x.flush(id); f != nil {
			return f
		}
	}
	return ch.flushLeaving(id)
}

// awaitPublishes waits until the queues have decided on the publishes counted in n, which mu
// guards: later commands must not overtake them (AM-13).
func (c *conn) awaitPublishes(ctx context.Context, n *int) error {
	return c.await(ctx, func() bool { return *n == 0 })
}

// settleDown is awaitPublishes with a short time limit, for a channel or connection that is ending.
func (c *conn) settleDown(n *int) {
	ctx, stop := context.WithTimeout(c.life, endWait)
	defer stop()
	_ = c.awaitPublishes(ctx, n) // what is left completes without the channel
}

// awaitConfirms waits until the writer has taken the results of channels that are ending, so that the confirms come
// before close-ok. It waits no longer than settleDown, nor beyond the connection.
func (c *conn) awaitConfirms(ending ...*channel) {
	ctx, stop := context.WithTimeout(c.life, endWait)
	defer stop()
	_ = c.await(ctx, func() bool { // a client that does not read gets none
		return c.closing || !slices.ContainsFunc(ending, func(ch *channel) bool { return len(ch.results) > 0 })
	})
}
