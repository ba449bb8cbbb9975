package amqp

import (
	"errors"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
)

// handle runs one frame, or passes it to a goroutine beside the reader.
func (c *conn) handle(f wire.Frame) error {
	if err := c.holdBack(&c.hand, c.hasRoom); err != nil {
		return err
	}
	if f.Channel == 0 {
		return c.handleConnection(f)
	}
	if c.isClosing() {
		return nil
	}
	ch, elsewhere := c.route(f)
	if elsewhere {
		return nil
	}
	err := c.runFrame(&c.hand, ch, f)
	if errors.Is(err, errPaused) {
		c.pause(ch, f)
		return nil
	}
	return err
}

// runFrame runs one frame of a channel; ch is nil if the channel is not open.
func (c *conn) runFrame(by *hand, ch *channel, f wire.Frame) error {
	if ch == nil {
		return c.openChannel(f)
	}
	ch.by = by
	err := ch.handle(f)
	ch.by = nil
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
		c.awaitBeside()
		if x, ok := errors.AsType[*fault](c.takeFault()); ok { // it came before the close
			c.report(x)
		}
		c.settleDown(&c.inFlight)
		c.awaitConfirms(c.openChannels()...)
		c.end()
		c.send(0, &wire.ConnectionCloseOK{})
		return errClosed
	case *wire.ConnectionCloseOK:
		if c.isClosing() {
			return errAnswered
		}
	case *wire.ConnectionUpdateSecret:
		if c.isClosing() {
			return nil
		}
		return c.updateSecret(m)
	}
	if c.isClosing() {
		return nil
	}
	return refuse(wire.CommandInvalid, m.ID(), "%s on a connection that is open", m.ID())
}

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
		return ch.content.unexpected()
	}
	switch id {
	case wire.BasicPublishID:
		err := ch.c.awaitUnblocked(ch.by)
		if err == nil {
			err = ch.awaitQuotas()
		}
		if err != nil || ch.c.isEnding() {
			return err
		}
		return ch.publish(f.Payload)
	case wire.BasicAckID:
		var m wire.BasicAck
		if err := wire.ParseAck(f.Payload, &m); err != nil {
			return faultOf(err, id)
		}
		return ch.ack(&m)
	default: // the rest, which do not come with every message
	}
	m, err := wire.ParseMethod(f.Payload, &ch.by.names)
	if err != nil {
		return faultOf(err, id)
	}
	return ch.method(m)
}

// hasTimedOut reports whether the writer closed the channel because of an ack deadline. It takes
// the connection's mu.
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

// method runs the methods of channel, confirm and tx, and passes on the rest by class.
func (ch *channel) method(m wire.Method) error {
	switch m := m.(type) {
	case *wire.ChannelClose:
		ch.c.settleDown(&ch.inFlight)
		ch.closing = true // the answer comes even if the writer closes the channel too
		ch.c.drop(ch.c.ctx, ch)
		ch.send(&wire.ChannelCloseOK{})
		return nil
	case *wire.ChannelFlow:
		if !m.Active { // prefetch serves the purpose, and clients expect a refusal
			return refuse(wire.NotImplemented, m.ID(), "active=false")
		}
		ch.send(&wire.ChannelFlowOK{Active: true})
		return nil
	case *wire.ChannelFlowOK: // the server never asked for it
		return nil
	case *wire.ChannelOpen:
		return refuse(wire.ChannelError, m.ID(), "second 'channel.open' seen")
	case *wire.ConfirmSelect:
		return ch.selectConfirms(m)
	case *wire.TxSelect, *wire.TxCommit, *wire.TxRollback:
		return ch.transact(m)
	}
	if handled, err := ch.topologyMethod(m); handled {
		return err
	}
	return ch.basicMethod(m)
}

// basicMethod runs the methods of class basic but publish and ack, which handle parses without an
// allocation. A reject counts as a failed delivery, a nack does not (D-11).
func (ch *channel) basicMethod(m wire.Method) error {
	switch m := m.(type) {
	case *wire.BasicQos:
		if m.PrefetchSize != 0 {
			return refuse(wire.NotImplemented, m.ID(), "prefetch_size!=0 (%d)", m.PrefetchSize)
		}
		ch.prefetch = m.PrefetchCount
		ch.show()
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
			o.outcome = broker.Requeue
		}
		return ch.settle(m.DeliveryTag, m.Multiple, o)
	case *wire.BasicReject:
		o := settle{outcome: broker.Discard, failed: true, method: m.ID()}
		if m.Requeue {
			o.outcome = broker.Requeue
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
	return refuse(wire.CommandInvalid, m.ID(), "%s is not a method that a server receives on a channel", m.ID())
}

// answer sends the answer of a method unless it has no-wait (AM-5).
func (ch *channel) answer(noWait bool, m wire.Method) error {
	if !noWait {
		ch.send(m)
	}
	return nil
}

// named returns the queue's name; an empty name stands for the channel's last queue.
func (ch *channel) named(queue string, id wire.MethodID) (string, error) {
	if queue != "" {
		return queue, nil
	}
	if ch.lastQueue == "" {
		return "", refuse(wire.NotFound, id, "no previously declared queue")
	}
	return ch.lastQueue, nil
}
