package broker

import (
	"context"
	"sync"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Consumer is one client's consumer of one queue. All methods may be called
// concurrently, except Take: that belongs to one goroutine.
type Consumer struct {
	b          *Broker
	autoDelete bool // of the queue
	classic    bool // is the type of the queue
	about      failure.Error
	autoAck    bool
	origin     origin
	shown      *clients.Consumer
	c          *gateway.Consumer
	ready      chan struct{} // holds a token when there is something to take, or the end
	woken      func()        // if set, in place of ready

	buffer *Buffer

	mu           sync.Mutex
	uncount      func() // takes it off what limits count (VH-4); nil: it does not count
	arrived      arrivals
	closed       bool   // nothing counts any more
	taken        uint64 // the newest id that Take has returned
	open         unacked
	annotations  annotations
	credit       creditTracker
	ended        error
	revoked      []uint64 // ids, not taken yet
	active       Activity
	lastActivity Activity // what TakeActivity returned last
}

// Classic reports whether the queue is of that type.
func (c *Consumer) Classic() bool { return c.classic }

// deliver takes what the gateway hands over, in order. Its bytes count in the buffer already; of a closed consumer they
// are given back.
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

// letGo gives back the room of what arrived and will not be taken, or does not count.
func (c *Consumer) letGo() {
	c.mu.Lock()
	bytes := c.arrived.bytes
	c.arrived.bytes, c.closed = 0, true
	c.mu.Unlock()
	c.hide()
	c.buffer.b.Release(bytes)
}

// end notes why the queue has ended the consumer. What has arrived can still be taken.
func (c *Consumer) end(err error) {
	c.mu.Lock()
	c.ended = err
	c.mu.Unlock()
	c.wake()
}

// setActive notes whether the queue's single active consumer is this one (SAC-4). It is not called for other queues, so
// that the zero Activity is theirs.
func (c *Consumer) setActive(active bool) {
	c.mu.Lock()
	c.active = Waiting
	if active {
		c.active = Active
	}
	c.mu.Unlock()
	c.wake()
}

// revoke notes deliveries that the queue has taken back (CT-3), for TakeRevoked.
func (c *Consumer) revoke(r quorumq.MsgIDRange) {
	c.mu.Lock()
	for m := r.First; m <= r.Last; m++ {
		c.revoked = append(c.revoked, uint64(m))
	}
	c.mu.Unlock()
	c.wake()
}

// TakeRevoked returns the deliveries that the client has had for too long since it was asked
// last; they are back in the queue (CT-3). Ready gives a token when there are some.
func (c *Consumer) TakeRevoked() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.revoked
	c.revoked = nil
	return ids
}

// TakeActivity returns what the consumer is, and whether that is news. Ready gives a token
// when it may be. For the goroutine of Take.
func (c *Consumer) TakeActivity() (a Activity, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = c.active != c.lastActivity
	c.lastActivity = c.active
	return c.active, news
}

// wake has the client's goroutine look again. One token is enough for all that is new; mu must not be held, since woken
// may take locks of the listener.
func (c *Consumer) wake() {
	if c.woken != nil {
		c.woken()
		return
	}
	wait.Wake(c.ready)
}

// Ready returns a channel that gives a token when Take may have something new.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

// Take appends deliveries that arrived, in order: at most limit and, beyond the first,
// at most maxBytes of stored messages. When the consumer has ended without Close, and all was
// taken, it returns why: NotFound when the queue was deleted.
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
	limitID := c.credit.raise(c.taken)
	c.mu.Unlock()
	if limitID > 0 {
		c.c.Credit(quorumq.MsgID(limitID))
	}
	if freed > 0 {
		c.buffer.b.Release(freed)
	}

	for i := range batch {
		d, added, err := decodeDelivery(&batch[i])
		if err != nil {
			return dst, errUnreadable(err, c.about)
		}
		if len(added) > 0 && !c.autoAck {
			c.note(d.ID, added)
		}
		dst = append(dst, d)
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

// note keeps the annotations that a delivery came with until it is settled: a return with others must contain them
// (DEL-11).
func (c *Consumer) note(id uint64, added message.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.annotations == nil {
		c.annotations = make(annotations)
	}
	c.annotations[id] = added
}

// recycle has what was taken go.
func (c *Consumer) recycle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived.recycle()
}

// freeLocked returns how much room the taking of a batch makes. The caller holds mu.
func (c *Consumer) freeLocked(batch []traffic.Delivery) int64 {
	if c.closed {
		return 0
	}
	freed := sizeOf(batch)
	c.arrived.bytes -= freed
	return freed
}

// HasPending reports whether more has been assigned to the consumer than there was room for: that is
// still to come. Take may have something new when it ends.
func (c *Consumer) HasPending() bool { return c.c.HasPending() }

// Flush waits until every decision so far is committed.
func (c *Consumer) Flush(ctx context.Context) error {
	return failure.Translate(c.c.Flush(ctx), c.about)
}

// Cancel ends delivery; what is unsettled stays the client's or, with requeue, returns
// at once, not failed (CO-3).
func (c *Consumer) Cancel(ctx context.Context, requeue bool) error {
	c.hide()
	return failure.Translate(c.c.Cancel(ctx, requeue), c.about)
}

// Close ends the consumer: what is unsettled returns as a failed delivery (DEL-8). It does
// not wait.
func (c *Consumer) Close() {
	c.letGo()
	c.c.Close()
}

// Finish is Close that waits until the queue knows, and until an auto-delete queue that is
// to go with this consumer is gone, or dead-letters its messages; no longer than until ctx ends.
func (c *Consumer) Finish(ctx context.Context) {
	c.letGo()
	closed := make(chan struct{})
	c.c.CloseThen(func() { close(closed) })
	select {
	case <-closed:
	case <-ctx.Done():
		return
	}
	if !c.autoDelete {
		return
	}
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

// AddCredit allows n more deliveries, with ExplicitCredit.
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
	limit := c.credit.raise(c.taken)
	c.mu.Unlock()
	if limit > 0 {
		c.c.Credit(quorumq.MsgID(limit))
	}
	return nil
}

// hide ends that operators see the consumer, and that it counts.
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

// counts keeps what takes the consumer off the limits again, unless it was closed meanwhile.
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

// look returns what operators see, and the consumer's connection; false if the queue has
// ended it.
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
