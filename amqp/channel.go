package amqp

import (
	"context"
	"sync"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// channel is one channel of a connection. What is above mu's part belongs to the reader.
type channel struct {
	c      *conn
	number uint16

	leave     func() // gives back what counts the channel
	closing   bool   // channel.close was sent: all but close and close-ok is dropped
	confirms  bool
	tx        *transaction
	published uint64 // the number of the last publish in confirm mode
	prefetch  uint16 // of consumers to come (DEL-3)
	lastQueue string // what an empty name means
	consumers map[string]*consumer
	replies   *consumer   // of answers to the channel's own requests; nil: none
	replyTo   string      // where they come
	retired   []*consumer // cancelled, with deliveries that are unsettled
	content   content
	done      func(broker.Result) // takes results of publishes
	inline    broker.Result       // of the publish that is being made, if it is known at once

	// Guarded by the connection's mu.
	inFlight  int  // publishes without a result
	gone      bool // nothing is delivered any more
	paused    bool // by channel.flow: nothing is delivered for now
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

func (c *conn) channel(n uint16) *channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channels[n]
}

func (c *conn) openChannels() []*channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*channel, 0, len(c.channels))
	for _, ch := range c.channels {
		all = append(all, ch)
	}
	return all
}

// handle runs one frame.
func (c *conn) handle(f wire.Frame) error {
	if err := c.awaitRoom(); err != nil {
		return err
	}
	if f.Channel == 0 {
		return c.handleConnection(f)
	}
	if c.isClosing() {
		return nil
	}
	ch := c.channel(f.Channel)
	if ch == nil {
		return c.openChannel(f)
	}
	err := ch.handle(f)
	if x, ok := err.(*fault); ok && !x.hard { //nolint:errorlint // faults are returned bare
		ch.fail(x)
		return nil
	}
	return err
}

// handleConnection runs a frame of channel 0.
func (c *conn) handleConnection(f wire.Frame) error {
	if f.Type != wire.FrameMethod {
		return refuse(wire.UnexpectedFrame, 0, "a frame of type %d on channel 0", f.Type)
	}
	m, err := wire.ParseMethod(f.Payload, nil)
	if err != nil {
		return faultOf(err, 0)
	}
	switch m := m.(type) {
	case *wire.ConnectionClose:
		c.end()
		c.send(0, &wire.ConnectionCloseOK{})
		return errClosed
	case *wire.ConnectionCloseOK:
		if c.isClosing() {
			return errClosed
		}
	case *wire.ConnectionUpdateSecret:
		return c.updateSecret(m)
	}
	if c.isClosing() {
		return nil
	}
	return refuse(wire.CommandInvalid, m.ID(), "%s on a connection that is open", m.ID())
}

// updateSecret takes a new password or token of the user.
func (c *conn) updateSecret(m *wire.ConnectionUpdateSecret) error {
	if user := c.user(); user != "" {
		who, err := c.s.b.Login(c.ctx, user, m.NewSecret, addressOf(c.nc))
		if err != nil {
			return faultOf(err, m.ID()).hardened()
		}
		c.ctx = broker.WithIdentity(c.ctx, who)
		if c.sender, err = c.s.b.NewSender(c.ctx); err != nil {
			return faultOf(err, m.ID()).hardened()
		}
	}
	c.send(0, &wire.ConnectionUpdateSecretOK{})
	return nil
}

func (f *fault) hardened() *fault {
	f.hard = true
	return f
}

// openChannel takes the first frame of a channel.
func (c *conn) openChannel(f wire.Frame) error {
	id, err := wire.MethodOf(f.Payload)
	if f.Type != wire.FrameMethod || err != nil || id != wire.ChannelOpenID {
		if id == wire.ChannelCloseOKID {
			return nil
		}
		return refuse(wire.ChannelError, id, "expected 'channel.open' on channel %d", f.Channel)
	}
	if f.Channel > c.chanMax {
		return refuse(wire.NotAllowed, id, "channel %d: number of channels opened (%d) has reached the negotiated channel_max (%d)",
			f.Channel, len(c.openChannels()), c.chanMax)
	}
	leave, err := c.s.b.OpenChannel(c.ctx)
	if err != nil {
		return faultOf(err, id)
	}
	ch := &channel{c: c, number: f.Channel, leave: leave, consumers: map[string]*consumer{}}
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
	ch.c.log.Warn("a channel is closed for a fault of the client", "channel", ch.number, "error", f)
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
	ch.retired, ch.replies, ch.replyTo = nil, nil, ""
	ch.giveBack(open)
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

// handle runs one frame of the channel.
func (ch *channel) handle(f wire.Frame) error {
	if !ch.closing && ch.hasTimedOut() {
		ch.closing = true
		ch.quit(ch.c.ctx)
	}
	if ch.closing {
		return ch.handleClosing(f)
	}
	switch f.Type {
	case wire.FrameHeader:
		return ch.header(f.Payload)
	case wire.FrameBody:
		return ch.body(f.Payload)
	case wire.FrameMethod:
	case wire.FrameHeartbeat:
		return nil
	}
	id, err := wire.MethodOf(f.Payload)
	if err != nil {
		return faultOf(err, 0)
	}
	if ch.content.expected {
		return refuse(wire.UnexpectedFrame, id, "expected content of basic.publish, have method %s", id)
	}
	switch id {
	case wire.BasicPublishID:
		if err := ch.c.awaitUnblocked(); err != nil || ch.c.isClosing() {
			return err
		}
		return ch.publish(f.Payload)
	case wire.BasicAckID:
		var m wire.BasicAck
		if err := wire.ParseAck(f.Payload, &m); err != nil {
			return faultOf(err, id)
		}
		return ch.ack(&m)
	default: // those that do not come once a message
	}
	m, err := wire.ParseMethod(f.Payload, &ch.c.names)
	if err != nil {
		return faultOf(err, id)
	}
	return ch.method(m)
}

func (ch *channel) hasTimedOut() bool {
	ch.c.mu.Lock()
	defer ch.c.mu.Unlock()
	return ch.timedOut
}

// handleClosing drops what comes between channel.close and its answer.
func (ch *channel) handleClosing(f wire.Frame) error {
	if f.Type != wire.FrameMethod {
		return nil
	}
	switch id, _ := wire.MethodOf(f.Payload); id {
	case wire.ChannelCloseOKID:
		ch.c.drop(ch.c.ctx, ch)
	case wire.ChannelCloseID: // both closed at the same time
		ch.send(&wire.ChannelCloseOK{})
	default:
	}
	return nil
}

func (ch *channel) method(m wire.Method) error {
	switch m := m.(type) {
	case *wire.ChannelClose:
		ch.c.drop(ch.c.ctx, ch)
		ch.send(&wire.ChannelCloseOK{})
		return nil
	case *wire.ChannelFlow:
		ch.flow(m.Active)
		return nil
	case *wire.ChannelFlowOK: // nobody asked for it
		return nil
	case *wire.ChannelOpen:
		return refuse(wire.ChannelError, m.ID(), "second 'channel.open' seen")
	case *wire.ConfirmSelect:
		return ch.selectConfirms(m)
	case *wire.TxSelect, *wire.TxCommit, *wire.TxRollback:
		return ch.transact(m)
	}
	if handled, err := ch.exchangeMethod(m); handled {
		return err
	}
	if handled, err := ch.queueMethod(m); handled {
		return err
	}
	return ch.basicMethod(m)
}

func (ch *channel) basicMethod(m wire.Method) error {
	switch m := m.(type) {
	case *wire.BasicQos:
		if m.PrefetchSize != 0 {
			return refuse(wire.NotImplemented, m.ID(), "prefetch_size!=0 (%d)", m.PrefetchSize)
		}
		ch.prefetch = m.PrefetchCount
		ch.send(&wire.BasicQosOK{})
		return nil
	case *wire.BasicConsume:
		return ch.consume(m)
	case *wire.BasicCancel:
		return ch.cancel(m)
	case *wire.BasicCancelOK:
		return nil
	case *wire.BasicGet:
		return ch.get(m)
	case *wire.BasicNack:
		o := settle{outcome: broker.Discard, method: m.ID()}
		if m.Requeue {
			o.outcome = broker.Return
		}
		return ch.settle(m.DeliveryTag, m.Multiple, o)
	case *wire.BasicReject:
		o := settle{outcome: broker.Discard, failed: true, method: m.ID()}
		if m.Requeue {
			o.outcome = broker.Return
		}
		return ch.settle(m.DeliveryTag, false, o)
	case *wire.BasicRecover:
		if err := ch.recover(m.Requeue, m.ID()); err != nil {
			return err
		}
		ch.send(&wire.BasicRecoverOK{})
		return nil
	case *wire.BasicRecoverAsync:
		return ch.recover(m.Requeue, m.ID())
	}
	return refuse(wire.CommandInvalid, m.ID(), "%s is not a server's to receive on a channel", m.ID())
}

// catchUp waits until the queues have decided about what the channel has published and
// settled: a method that looks into a queue finds that done, as its client expects.
func (ch *channel) catchUp(id wire.MethodID) error {
	c := ch.c
	for {
		c.mu.Lock()
		n := ch.inFlight
		c.mu.Unlock()
		if n == 0 {
			break
		}
		select {
		case <-c.room:
		case <-c.life.Done():
			return c.life.Err()
		}
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

// answer sends the answer of a method that may go without (AM-5).
func (ch *channel) answer(noWait bool, m wire.Method) error {
	if !noWait {
		ch.send(m)
	}
	return nil
}

// named returns the queue's name; an empty one means the channel's last.
func (ch *channel) named(queue string, id wire.MethodID) (string, error) {
	if queue != "" {
		return queue, nil
	}
	if ch.lastQueue == "" {
		return "", refuse(wire.NotFound, id, "no previously declared queue")
	}
	return ch.lastQueue, nil
}
