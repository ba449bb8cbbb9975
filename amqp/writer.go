package amqp

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/wait"
)

// Limits of one step of the writer, and of the memory that is kept.
const (
	takeMessages = 256
	takeBytes    = 256 << 10
	keptOut      = 256 << 10 // by a connection
	writePiece   = 64 << 10
)

// writer sends a connection's output. Its fields belong to its goroutine unless noted otherwise.
type writer struct {
	c *conn
	output

	batch    []broker.Delivery
	consumer []*consumer
	channels []*channel
	results  []result
	due      bool // a heartbeat is

	frameMax  uint32        // guarded by the connection's mu until it is open
	heartbeat time.Duration // guarded by the connection's mu
}

// agreed sets the limits that the handshake has agreed on.
func (w *writer) agreed(frameMax uint32, heartbeat time.Duration) {
	w.c.mu.Lock()
	w.frameMax, w.heartbeat = frameMax, heartbeat
	w.c.mu.Unlock()
	wait.Wake(w.c.news)
}

// run writes until the connection ends. It reports whether all output was sent.
func (w *writer) run() bool {
	c := w.c
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.begin(c.s)
		done, heartbeat := w.step()
		sent := w.size() > 0
		if sent && !w.send() {
			return false
		}
		w.end(c.s)
		if sent {
			c.changed.Broadcast()
		}
		switch {
		case sent && heartbeat > 0:
			timer.Reset(heartbeat)
			continue
		case sent:
			continue
		case done:
			return true
		}
		select {
		case <-c.news:
		case <-timer.C:
			w.due = heartbeat > 0
		case <-c.life.Done():
			return w.last()
		}
	}
}

// send writes the buffer piece by piece. A client that does not take even one piece within the
// timeout is cut off; one that is merely slow is not.
func (w *writer) send() bool {
	c := w.c
	for parts := w.parts(); len(parts) > 0; {
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.s.cfg.WriteTimeout)); err != nil {
			return false
		}
		n, err := w.write(c, &parts, writePiece)
		c.sent.Add(uint64(n)) // not negative
		if errors.Is(err, os.ErrDeadlineExceeded) && c.life.Err() == nil {
			c.s.counters.stalled.Add(1)
			c.log.Warn("a client is cut off because it reads nothing", "timeout", c.s.cfg.WriteTimeout)
		}
		if err != nil {
			return false
		}
	}
	return true
}

// last sends the remaining output, such as the reason of a close.
func (w *writer) last() bool {
	for {
		select {
		case <-w.c.news:
		case <-time.After(closeWait):
			return false
		}
		w.begin(w.c.s)
		done, _ := w.step()
		if w.size() > 0 {
			_ = w.c.nc.SetWriteDeadline(time.Now().Add(time.Second))
		}
		for parts := w.parts(); len(parts) > 0; {
			if _, err := w.write(w.c, &parts, writePiece); err != nil {
				return false
			}
		}
		w.end(w.c.s)
		if done {
			return true
		}
	}
}

// step gathers the output of one step. done reports that nothing will follow; heartbeat is the
// interval of heartbeats.
func (w *writer) step() (done bool, heartbeat time.Duration) {
	c := w.c
	if w.due {
		w.due, w.buf = false, wire.AppendHeartbeat(w.buf)
	}
	c.mu.Lock()
	w.buf = append(w.buf, c.out...)
	if c.out = c.out[:0]; cap(c.out) > keptOut {
		c.out = nil
	}
	if c.closing { // nothing follows connection.close
		clear(c.wakened)
		clear(c.settling)
		c.wakened, c.settling = c.wakened[:0], c.settling[:0]
	}
	w.consumer, c.wakened = c.wakened, w.consumer[:0]
	for _, x := range w.consumer {
		x.woken = false
	}
	w.channels, c.settling = c.settling, w.channels[:0]
	done, heartbeat = c.done, w.heartbeat/2
	c.mu.Unlock()
	for _, ch := range w.channels {
		w.confirms(ch)
	}
	for i, x := range w.consumer {
		if w.size() >= takeBytes { // the rest comes first in the next step
			c.wakeFirst(w.consumer[i:])
			break
		}
		w.deliveries(x)
	}
	clear(w.channels)
	clear(w.consumer)
	return done, heartbeat
}

// wakeFirst puts these consumers before the ones that are already awake.
func (c *conn) wakeFirst(xs []*consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := 0
	for _, x := range xs {
		if !x.woken {
			x.woken = true
			c.wakened = slices.Insert(c.wakened, at, x)
			at++
		}
	}
	wait.Wake(c.news)
}

// confirms appends acks and nacks (PUB-4): one for all publishes up to the first that is
// unanswered, and one for each publish above it.
func (w *writer) confirms(ch *channel) {
	c := w.c
	c.mu.Lock()
	w.results, ch.results = ch.results, w.results[:0]
	c.forgetResults(len(w.results))
	gone := ch.gone
	c.mu.Unlock()
	if gone { // it was closed meanwhile
		return
	}
	slices.SortFunc(w.results, func(a, b result) int {
		switch {
		case a.tag < b.tag:
			return -1
		case a.tag > b.tag:
			return 1
		}
		return 0
	})
	for _, run := range ch.confirmed.decide(w.results) {
		if run.refused {
			w.buf = wire.AppendMethod(w.buf, ch.number, &wire.BasicNack{DeliveryTag: run.tag, Multiple: run.multiple})
			continue
		}
		a := wire.BasicAck{DeliveryTag: run.tag, Multiple: run.multiple}
		w.buf = wire.AppendAck(w.buf, ch.number, &a)
	}
}

// deliveries takes deliveries of a consumer, as many as fit into one step.
func (w *writer) deliveries(x *consumer) {
	c, ch := w.c, x.ch
	c.mu.Lock()
	started := x.started
	c.mu.Unlock()
	if !started { // it continues after a cancel, and its consume-ok must come first
		return
	}
	clear(w.batch)
	batch, err := x.c.Take(w.batch[:0], takeMessages, takeBytes)
	w.batch = batch
	pending := len(batch) == 0 && err == nil && x.c.HasPending()
	c.mu.Lock()
	if ch.gone || x.ended {
		late := !ch.gone && !x.noAck
		c.mu.Unlock()
		if late {
			x.returnLate(batch)
		}
		x.afterEnd(err)
		return
	}
	first := ch.delivered + 1
	ch.delivered += uint64(len(batch))
	if !x.noAck {
		for i := range batch {
			ch.unsettled.add(open{tag: first + uint64(i), x: x, id: batch[i].ID}) // positive
		}
	}
	if len(batch) == 0 && err == nil && !pending {
		x.drainedLocked()
	}
	again := len(batch) > 0 && !x.woken
	if again { // until nothing is left: that also completes a cancel
		x.woken = true
		c.wakened = append(c.wakened, x)
		wait.Wake(c.news)
	}
	c.mu.Unlock()
	for i := range batch {
		w.deliver(x, first+uint64(i), &batch[i]) // positive
	}
	switch {
	case err != nil:
		c.consumerEnded(x, err)
	case len(x.c.TakeRevoked()) > 0:
		c.consumerTimedOut(x)
	}
}

// afterEnd handles what the queue did with a consumer that has ended, for example because its client cancelled it. If
// one of its deliveries has timed out, it ends for good as others do, and all that it holds returns (CT-4).
func (x *consumer) afterEnd(err error) {
	c := x.ch.c
	revoked := len(x.c.TakeRevoked()) > 0
	if revoked {
		x.c.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if revoked || err != nil && outlives(err) {
		x.returned = true // a commit must not settle what is back in the queue
	}
	if revoked || err != nil {
		x.over, x.ch.lost = true, true
	}
	x.doneLocked()
}

// returnLate returns deliveries for a cancelled consumer to the queue: the client will not settle
// them, and they must not wait for the end of the channel.
func (x *consumer) returnLate(batch []broker.Delivery) {
	if len(batch) == 0 {
		return
	}
	ids := make([]uint64, len(batch))
	for i := range batch {
		ids[i] = batch[i].ID
	}
	if _, err := x.c.Settle(&broker.Settlement{IDs: ids, Outcome: broker.Requeue}); err != nil {
		x.ch.c.log.Debug("deliveries of a cancelled consumer could not be returned; they return when its channel ends", "error", err)
	}
}

// consumerTimedOut ends a consumer that has held a delivery for too long. Settling the delivery
// later does not bring the consumer back (CT-3, CT-4). A client that does not understand
// basic.cancel loses the channel.
func (c *conn) consumerTimedOut(x *consumer) {
	c.log.Warn("a consumer held a delivery for longer than its timeout", "channel", x.ch.number, "tag", x.tag)
	x.c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	x.returned = true
	if x.ended || x.ch.gone {
		return
	}
	if x.loseLocked() || c.closing {
		return
	}
	if c.client.cancelNotify {
		c.out = wire.AppendMethod(c.out, x.ch.number, &wire.BasicCancel{ConsumerTag: x.tag, NoWait: true})
	} else {
		x.ch.gone, x.ch.timedOut = true, true
		c.s.counters.channelsFailed.Add(1)
		c.out = wire.AppendMethod(c.out, x.ch.number, &wire.ChannelClose{
			ReplyCode: uint16(wire.PreconditionFailed),
			ReplyText: fmt.Sprintf("%s - delivery acknowledgement on channel %d timed out, of consumer '%s'", wire.PreconditionFailed, x.ch.number, x.tag),
		})
	}
	wait.Wake(c.news)
}

// deliver appends basic.deliver with its content to buf. For answers to direct reply-to the routing
// key is the consumer's address (AM-3).
func (w *writer) deliver(x *consumer, tag uint64, d *broker.Delivery) {
	m := wire.BasicDeliver{
		ConsumerTag: x.tag, DeliveryTag: tag, Redelivered: d.Redelivered,
		Exchange: d.Message.Exchange, RoutingKey: cmp.Or(x.address, d.Message.PrimaryKey()),
	}
	w.buf = wire.AppendDeliver(w.buf, x.ch.number, &m)
	w.buf = wire.AppendContentHeader(w.buf, x.ch.number, &d.Message, d.Headers(x.c.Classic()))
	w.body(x.ch.number, d.Message.Body, w.frameMax)
}

// goneWithQueue reports whether a consumer ended because its queue was deleted, with what the consumer held.
func goneWithQueue(err error) bool {
	e, ok := errors.AsType[*failure.Error](err)
	return ok && e.Class == failure.NotFound
}

// outlives reports whether the messages of a consumer that ended with err are still there: in the queue, or as dead letters
// of one that is being deleted.
func outlives(err error) bool { return !goneWithQueue(err) || broker.DeadLetters(err) }

// consumerEnded notifies a client that its consumer receives no more messages (CN-1).
func (c *conn) consumerEnded(x *consumer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.ended {
		return
	}
	x.returned = outlives(err)
	if x.loseLocked() {
		return
	}
	c.log.Info("a consumer ended", "channel", x.ch.number, "tag", x.tag, "error", err)
	if !c.closing && (c.client.cancelNotify || !goneWithQueue(err)) {
		c.out = wire.AppendMethod(c.out, x.ch.number, &wire.BasicCancel{ConsumerTag: x.tag, NoWait: true})
		wait.Wake(c.news)
	}
}
