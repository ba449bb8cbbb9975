package amqp

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/message"
)

// consumer is one consumer of a channel.
type consumer struct {
	ch    *channel
	tag   string
	queue string
	c     *broker.Consumer
	noAck bool

	address string // reply address, which is the routing key of replies (AM-3); "": it consumes from a queue

	// Like the channel, the following belongs to the reader or to the channel's frame queue.
	decided bool // some decisions may not be committed
	held    int  // once it is retired: deliveries without a decision

	// The connection's mu guards the following.
	started  bool // consume-ok is on its way
	woken    bool // is in wakened, or was woken before it started
	cancels  bool // basic.cancel waits for the last delivery
	ended    bool
	returned bool // the server has ended it, and its deliveries are back in the queue, or dead-lettered with it
	over     bool // the server has ended it after its client had cancelled it
	left     bool // of one in leaving: its queue knows that it has ended
}

// doneLocked lets a basic.cancel that waits continue: the client gets no more deliveries. The connection's mu is held.
func (x *consumer) doneLocked() {
	if x.cancels {
		x.cancels = false
		x.ch.c.changed.Broadcast()
	}
}

// wake notifies the writer that deliveries may be waiting. It may be called from any goroutine.
func (x *consumer) wake() {
	c := x.ch.c
	c.mu.Lock()
	first := !x.woken
	x.woken = true
	if first && x.started {
		c.wakened = append(c.wakened, x)
	}
	c.mu.Unlock()
	if first {
		wait.Wake(c.news)
	}
}

// drainedLocked is called when the writer has found nothing to deliver. A basic.cancel that waits continues, unless the
// consumer was woken since the writer looked: then its last delivery may have come in between, and the writer checks
// again. The connection's mu is held.
func (x *consumer) drainedLocked() {
	if !x.woken {
		x.doneLocked()
	}
}

// loseLocked ends the consumer without its client's request. It reports whether the client has sent basic.cancel
// meanwhile: then cancel-ok is the only notice. The connection's mu is held.
func (x *consumer) loseLocked() (cancels bool) {
	x.endLocked()
	x.ch.lost = true
	cancels = x.cancels
	x.doneLocked()
	return cancels
}

// end ends the consumer, and returns what waits until its queue has learned that.
func (x *consumer) end() (wait func(ctx context.Context)) {
	c := x.ch.c
	c.mu.Lock()
	x.endLocked()
	x.doneLocked()
	c.mu.Unlock()
	c.s.counters.consumers.Add(-1)
	return x.c.End()
}

// madeUpChars is the number of random characters in a generated tag, with 5 bits each.
const madeUpChars = 22

// madeUpTag generates a consumer tag where the client gives none (AM-14).
func madeUpTag() string { return "amq.ctag-" + rand.Text()[:madeUpChars] }

// consume starts a consumer. Earlier publishes of the channel come first. consume-ok and started
// are set under one hold of mu, so the writer never sends a delivery before consume-ok.
func (ch *channel) consume(m *wire.BasicConsume) error {
	tag := m.ConsumerTag
	if tag == "" {
		tag = madeUpTag()
	}
	ch.forgetEnded()
	if ch.consumers[tag] != nil {
		return refuse(wire.NotAllowed, m.ID(), "attempt to reuse consumer tag '%s'", tag)
	}
	if err := ch.c.awaitPublishes(ch.c.life, &ch.inFlight); err != nil {
		return err
	}
	x, err := ch.open(m, tag)
	if err != nil {
		return err
	}
	ch.consumers[tag] = x
	c := ch.c
	c.mu.Lock()
	if !m.NoWait && !ch.silent() {
		c.out = wire.AppendMethod(c.out, ch.number, &wire.BasicConsumeOK{ConsumerTag: tag})
	}
	x.started, x.woken, x.ended = true, true, false
	ch.seen.consumers++
	c.wakened = append(c.wakened, x)
	c.mu.Unlock()
	wait.Wake(c.news)
	return nil
}

// open returns the consumer for a basic.consume: a new one, or the cancelled one of the same tag.
func (ch *channel) open(m *wire.BasicConsume, tag string) (*consumer, error) {
	x := &consumer{ch: ch, tag: tag, noAck: m.NoAck}
	var err error
	if m.Queue == names.ReplyTo {
		err = ch.openReplies(m, x)
	} else {
		x, err = ch.openConsumer(m, x)
	}
	return x, err
}

// openConsumer registers a consumer with its queue. A consumer that was cancelled under the same
// tag and holds deliveries continues instead (CO-3).
func (ch *channel) openConsumer(m *wire.BasicConsume, x *consumer) (*consumer, error) {
	var err error
	if x.queue, err = ch.named(m.Queue, m.ID()); err != nil {
		return nil, err
	}
	o := broker.Consume{
		VHost: ch.c.vhost, Queue: x.queue, Tag: x.tag, Arguments: m.Arguments, Prefetch: uint32(ch.prefetch), AutoAck: m.NoAck, Exclusive: m.Exclusive, Wake: x.wake,
		Buffer: ch.c.buffer, Channel: uint32(ch.number),
	}
	if err := ch.arguments(m, x.queue, &o); err != nil {
		return nil, err
	}
	for i, old := range ch.retired {
		if old.tag != x.tag || old.queue != x.queue || m.NoAck {
			continue
		}
		if goesOn, err := ch.goOn(old, o); err != nil {
			return nil, faultOf(err, m.ID())
		} else if goesOn {
			ch.retired = slices.Delete(ch.retired, i, i+1)
			return old, nil
		}
	}
	if x.c, err = ch.c.s.b.Consume(ch.c.ctx, o); err != nil {
		return nil, faultOf(err, m.ID())
	}
	ch.c.s.counters.consumers.Add(1)
	return x, nil
}

// goOn lets a cancelled consumer take deliveries again. Deliveries that arrive before consume-ok
// wait for it.
func (ch *channel) goOn(x *consumer, o broker.Consume) (bool, error) {
	c := ch.c
	c.mu.Lock()
	x.started = false
	c.mu.Unlock()
	goesOn, err := x.c.Again(c.ctx, o)
	if goesOn && err == nil {
		x.held = 0
		return true, nil
	}
	c.mu.Lock()
	x.started = true // its deliveries may still time out
	x.woken = true
	c.wakened = append(c.wakened, x)
	c.mu.Unlock()
	wait.Wake(c.news)
	return false, err
}

// arguments reads the arguments of a consumer (CO-1).
func (ch *channel) arguments(m *wire.BasicConsume, queue string, o *broker.Consume) error {
	integer := func(name string, low, high int64) (int64, bool, error) {
		v, there := m.Arguments.Get(name)
		if !there {
			return 0, false, nil
		}
		if n, ok := v.AsInt(); ok && n >= low && n <= high {
			return n, true, nil
		}
		why := wantInteger(v)
		if v.IsInt() {
			why = fmt.Sprintf("%s, want an integer from %d to %d", v, low, high)
		}
		return 0, false, refuse(wire.PreconditionFailed, m.ID(), "invalid arg '%s' for queue '%s' in vhost '%s': %s", name, queue, ch.c.vhost, why)
	}
	priority, _, err := integer("x-priority", math.MinInt32, math.MaxInt32)
	if err != nil {
		return err
	}
	o.Priority = int32(priority) // within its range
	o.TimeoutMs, o.HasTimeout, err = integer("x-consumer-timeout", 0, message.MaxExpirationMs)
	return err
}

// cancel ends a consumer. cancel-ok follows the last delivery that the queue had handed over, which
// the writer takes, unless the server closes the connection. Deliveries that are unsettled stay with
// the client (CO-3).
func (ch *channel) cancel(m *wire.BasicCancel) error {
	ch.forgetEnded()
	x := ch.consumers[m.ConsumerTag]
	if x == nil { // it has ended already, which is not a fault
		return ch.answer(m.NoWait, &wire.BasicCancelOK{ConsumerTag: m.ConsumerTag})
	}
	if err := ch.c.awaitPublishes(ch.c.life, &ch.inFlight); err != nil {
		return err
	}
	if err := x.c.Cancel(ch.c.ctx, false); err != nil && ch.c.ctx.Err() == nil && !returned(err) {
		return faultOf(err, m.ID())
	}
	c := ch.c
	c.mu.Lock()
	x.cancels = true
	if !x.woken {
		x.woken = true
		c.wakened = append(c.wakened, x)
	}
	c.mu.Unlock()
	wait.Wake(c.news)
	if err := c.await(c.ctx, func() bool { return !x.cancels || c.closing }); err != nil || c.isClosing() {
		return err
	}
	ch.remove(x)
	ch.retire(x)
	return ch.answer(m.NoWait, &wire.BasicCancelOK{ConsumerTag: m.ConsumerTag})
}

// forgetEnded frees the tags of consumers that the server has ended, and ends retired ones. Their deliveries are back in
// the queue, or gone with it.
func (ch *channel) forgetEnded() {
	c := ch.c
	c.mu.Lock()
	var ended []*consumer
	if ch.lost {
		for _, x := range ch.consumers {
			if x.ended {
				ended = append(ended, x)
			}
		}
		for _, x := range ch.retired {
			if x.over {
				x.held, ch.settled = 0, true
			}
		}
		ch.lost = false
	}
	c.mu.Unlock()
	for _, x := range ended {
		ch.remove(x)
		x.c.Close()
		c.s.counters.consumers.Add(-1)
	}
	ch.endSettled()
}

// remove frees the tag of a consumer.
func (ch *channel) remove(x *consumer) {
	delete(ch.consumers, x.tag)
	if x == ch.replies {
		ch.replies = nil
	}
}

// all goes over the channel's consumers, including cancelled ones that hold deliveries.
func (ch *channel) all() iter.Seq[*consumer] {
	return func(yield func(*consumer) bool) {
		for _, x := range ch.consumers {
			if !yield(x) {
				return
			}
		}
		for _, x := range ch.retired {
			if !yield(x) {
				return
			}
		}
	}
}
