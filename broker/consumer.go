package broker

import (
	"context"
	"slices"
	"sync"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Consumer is one client's consumer of one queue. All methods may be called concurrently, except Take and TakeActivity:
// one goroutine calls these.
type Consumer struct {
	b          *Broker
	autoDelete bool // whether the queue is
	classic    bool // whether the queue has that type
	about      failure.Error
	autoAck    bool
	origin     origin
	shown      *clients.Consumer
	c          *gateway.Consumer
	ready      chan struct{} // holds a token when Take has something new, or the consumer has ended
	woken      func()        // if set, called in place of a token in ready

	buffer *Buffer

	mu           sync.Mutex // guards what follows
	uncount      func()     // takes the consumer out of the counts of limits (VH-4); nil: it is in none
	arrived      arrivals
	closed       bool   // what arrives no longer counts in buffer
	taken        uint64 // the newest id that Take has returned
	skipped      uint64 // the newest id that will never arrive
	open         unacked
	annotations  annotations
	traced       traced
	credit       creditTracker
	ended        error
	revoked      []uint64 // ids that the queue has taken back, for TakeRevoked
	active       Activity
	lastActivity Activity // what TakeActivity returned last
}

// Classic reports whether the queue is a classic queue.
func (c *Consumer) Classic() bool { return c.classic }

// deliver accepts deliveries from the gateway, in order. The gateway has counted their bytes in the buffer already;
// deliver gives them back if the consumer is closed.
func (c *Consumer) deliver(ds []traffic.Delivery) {
	bytes := sizeOf(ds)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.buffer.b.Release(bytes)
		return
	}
	c.arrived.add(ds, bytes)
	c.mu.Unlock()
	c.wake()
}

// skip records that n deliveries up to an id will never arrive: they were on their way when their leader failed. They
// must not use up credit, or the queue would assign nothing more to a consumer that has lost all that its credit
// allowed.
func (c *Consumer) skip(n uint64, upTo quorumq.MsgID) {
	c.mu.Lock()
	c.skipped = uint64(upTo)
	if c.credit.explicit {
		c.credit.granted += n
	}
	c.mu.Unlock()
	c.wake() // Take raises the credit
}

// usedLocked returns the newest id up to which all deliveries were taken, or will never arrive. The caller holds mu.
func (c *Consumer) usedLocked() uint64 {
	if c.arrived.waiting() > 0 && c.arrived.next() < c.skipped {
		return c.taken
	}
	return max(c.taken, c.skipped)
}

// letGo frees the buffer of deliveries that Take will not return, and hides the consumer. Later deliveries do not
// count.
func (c *Consumer) letGo() {
	c.mu.Lock()
	bytes := c.arrived.bytes
	c.arrived.bytes, c.closed = 0, true
	c.mu.Unlock()
	c.hide()
	c.buffer.b.Release(bytes)
}

// end records why the queue has ended the consumer. Take still returns what has arrived.
func (c *Consumer) end(err error) {
	c.mu.Lock()
	c.ended = err
	c.mu.Unlock()
	c.wake()
}

// setActive records whether this consumer is the single active one of its queue (SAC-4). It is not called for queues
// without a single active consumer, so their consumers keep the zero Activity, Shared.
func (c *Consumer) setActive(active bool) {
	c.mu.Lock()
	c.active = Waiting
	if active {
		c.active = Active
	}
	c.mu.Unlock()
	c.wake()
}

// revoke records deliveries that the queue has taken back (CT-3), for TakeRevoked.
func (c *Consumer) revoke(r quorumq.MsgIDRange) {
	c.mu.Lock()
	for m := r.First; m <= r.Last; m++ {
		c.revoked = append(c.revoked, uint64(m))
	}
	c.traced.settle(c.b.tracer, c.about, r, "revoke", true)
	c.mu.Unlock()
	c.wake()
}

// TakeRevoked returns the deliveries that the queue has taken back since the last call, because the client did not
// settle them in time (CT-3). Ready gives a token when there are some.
func (c *Consumer) TakeRevoked() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.revoked
	c.revoked = nil
	return ids
}

// TakeActivity returns the consumer's activity, and whether it has changed since the last call. Ready gives a token
// when it may have changed. Only the goroutine of Take may call it.
func (c *Consumer) TakeActivity() (a Activity, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = c.active != c.lastActivity
	c.lastActivity = c.active
	return c.active, news
}

// wake makes the client's goroutine check again. One token is enough for all that is new. The caller must not hold
// mu, because woken may take locks of the listener.
func (c *Consumer) wake() {
	if c.woken != nil {
		c.woken()
		return
	}
	wait.Wake(c.ready)
}

// Ready returns a channel that gives a token when Take may have something new.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

// Take appends deliveries that have arrived to dst, in order: at most limit, and together at most maxBytes of stored
// messages unless the first one alone is larger. Once all are taken and the consumer has ended without Close, Take
// returns why: NotFound if the queue was deleted.
func (c *Consumer) Take(dst []Delivery, limit, maxBytes int) ([]Delivery, error) {
	c.mu.Lock()
	batch := c.arrived.take(limit, maxBytes)
	n, more, ended := len(batch), c.arrived.waiting() > 0, c.ended
	if n > 0 {
		c.taken = uint64(batch[n-1].MsgID)
		if !c.autoAck {
			c.open.deliveredUpTo(c.taken)
		}
	}
	freed := c.freeLocked(batch)
	c.credit.saw(batch)
	limitID := c.credit.raise(c.usedLocked())
	c.mu.Unlock()
	if limitID > 0 {
		c.c.Credit(quorumq.MsgID(limitID))
	}
	if freed > 0 {
		c.buffer.b.Release(freed)
	}
	if delivered := &c.b.clients.Counters.Delivered; c.autoAck {
		delivered.ConsumedAutoAck.Add(uint64(n))
	} else {
		delivered.Consumed.Add(uint64(n))
	}

	dst = slices.Grow(dst, n)
	for i := range batch {
		at := len(dst)
		d := &dst[:at+1][at]
		added, err := decodeDelivery(d, &batch[i])
		if err != nil {
			return dst, errUnreadable(err, c.about)
		}
		if len(added) > 0 && !c.autoAck {
			c.note(d.ID, added)
		}
		if c.b.tracer != nil {
			c.trace(d)
		}
		dst = dst[:at+1]
	}
	c.recycle()
	if more || (ended != nil && n > 0) {
		c.wake()
	}
	if n == 0 && ended != nil {
		return dst, failure.Translate(ended, c.about)
	}
	return dst, nil
}

// note keeps the annotations of a delivery until it is settled. If the client returns the message with other
// annotations, these must contain the old ones (DEL-11).
func (c *Consumer) note(id uint64, added message.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.annotations == nil {
		c.annotations = make(annotations)
	}
	c.annotations[id] = added
}

// trace makes the span of a delivery, before the client has it.
func (c *Consumer) trace(d *Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	span, is := traceDelivery(c.b.tracer, &c.origin, d)
	if !is || c.autoAck {
		return
	}
	if c.traced == nil {
		c.traced = make(traced)
	}
	c.traced[d.ID] = span
}

// recycle drops the deliveries that Take has returned.
func (c *Consumer) recycle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived.recycle()
}

// freeLocked returns how many bytes of the buffer become free when a batch is taken. The caller holds mu.
func (c *Consumer) freeLocked(batch []traffic.Delivery) int64 {
	if c.closed {
		return 0
	}
	freed := sizeOf(batch)
	c.arrived.bytes -= freed
	return freed
}

// HasPending reports whether the queue has assigned messages to the consumer that have not arrived yet, because there
// was no room for them, or others before them are missing. When this ends, Take may have something new.
func (c *Consumer) HasPending() bool { return c.c.HasPending() }

// Flush waits until all decisions are committed that Settle has passed on so far. If the consumer has
// ended before that, Flush returns why, as Take does.
func (c *Consumer) Flush(ctx context.Context) error {
	return failure.Translate(c.c.Flush(ctx), c.about)
}

// Missed returns why the consumer has ended, as Take does, if Settle was called since; otherwise nil.
// What Settle returned as unknown then is back in the queue, or gone with it.
func (c *Consumer) Missed() error { return failure.Translate(c.c.Missed(), c.about) }

// Void counts settlements that have had no effect, because the time of their messages was over and the queue had taken
// them back (CT-2). It counts what the queue has answered so far: see Flush.
func (c *Consumer) Void() uint64 { return c.c.Void() }

// Cancel ends the consumer's deliveries. Unsettled messages stay with the client or, with requeue, return to the queue
// at once and not as failed (CO-3).
func (c *Consumer) Cancel(ctx context.Context, requeue bool) error {
	c.hide()
	return failure.Translate(c.c.Cancel(ctx, requeue), c.about)
}

// Close ends the consumer: unsettled messages return to the queue as failed deliveries (DEL-8). Close does not wait.
func (c *Consumer) Close() { c.CloseThen(func() {}) }

// CloseThen is Close, and calls closed once the queue has ended the consumer, after all decisions so far, or never will.
// That may be before CloseThen returns. closed must not block.
func (c *Consumer) CloseThen(closed func()) {
	c.letGo()
	c.c.CloseThen(closed)
}

// Finish is Close, but waits until the queue has ended the consumer. If the queue is auto-delete and goes with this
// consumer, Finish also waits until the queue is gone or dead-letters its messages. It waits no longer
// than ctx.
func (c *Consumer) Finish(ctx context.Context) { c.End()(ctx) }

// End is Close, and returns what Finish waits for. A queue ends consumers in the order in which End is called.
func (c *Consumer) End() (wait func(ctx context.Context)) {
	closed := make(chan struct{})
	c.CloseThen(func() { close(closed) })
	return func(ctx context.Context) {
		select {
		case <-closed:
		case <-ctx.Done():
			return
		}
		if c.autoDelete {
			c.awaitDeletion(ctx)
		}
	}
}

// awaitDeletion waits, after the consumer's end, until its auto-delete queue is gone or has other consumers.
func (c *Consumer) awaitDeletion(ctx context.Context) {
	cl := c.b.cluster
	for ctx.Err() == nil {
		changed := cl.ViewChanged()
		if r, there := cl.View().QueueByUID(c.c.Queue()); !there || r.DrainDeleting > 0 {
			return
		}
		if s, err := cl.Leaders().Status(ctx, c.c.Queue()); err != nil || s.Overview.Consumers > 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// AddCredit allows n more deliveries. It is refused without ExplicitCredit.
func (c *Consumer) AddCredit(n uint32) error {
	c.mu.Lock()
	if !c.credit.explicit {
		c.mu.Unlock()
		about := c.about
		about.Class, about.State, about.Arg = failure.PreconditionFailed, true, "credit"
		about.Reason = "the consumer was opened without explicit credit; its prefetch bounds it"
		return &about
	}
	c.credit.granted += uint64(n)
	limit := c.credit.raise(c.usedLocked())
	c.mu.Unlock()
	if limit > 0 {
		c.c.Credit(quorumq.MsgID(limit))
	}
	return nil
}

// hide removes the consumer from the lists of operators and from the counts of limits.
func (c *Consumer) hide() {
	c.b.clients.HideConsumer(c.shown)
	c.mu.Lock()
	uncount := c.uncount
	c.uncount = nil
	c.mu.Unlock()
	if uncount != nil {
		uncount()
	}
}

// counts keeps uncount for the end of the consumer. If the consumer was closed meanwhile, counts calls it at once.
func (c *Consumer) counts(uncount func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.uncount = uncount
	}
	c.mu.Unlock()
	if closed {
		uncount()
	}
}

// look returns what operators see of the consumer, and its connection; ok is false if the queue has ended the consumer.
func (c *Consumer) look() (x clients.ConsumerInfo, from *clients.Connection, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x = c.origin.info
	if c.origin.connection != nil {
		from = c.origin.connection.Open
	}
	x.Activity = c.active.String()
	x.Unsettled, x.Buffered = c.open.count(), uint64(c.arrived.waiting()) // not below 0
	return x, from, c.ended == nil
}
