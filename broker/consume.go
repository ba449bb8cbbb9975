package broker

import (
	"context"
	"strconv"
	"sync"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// Consume is what to consume, and in which way.
type Consume struct {
	VHost, Queue string
	Tag          string        // the client's name for it, which operators see
	Arguments    message.Table // as the client gave them: operators see them, and unknown ones count (C-9)
	Prefetch     uint32        // bound of unsettled messages; 0: quorumq.MaxOutstanding (DEL-3)
	AutoAck      bool
	Priority     int32
	Exclusive    bool // CO-2
	// TimeoutMs is the consumer's own timeout of a delivery in milliseconds, if HasTimeout; 0:
	// none (CT-1).
	HasTimeout bool
	TimeoutMs  int64
	// ExplicitCredit delivers nothing until AddCredit allows it.
	ExplicitCredit bool
	// Wake, if set, is called from any goroutine when Take may have something new, in place of
	// the token of Ready. It must not block, and may be called before Consume has returned.
	Wake func()
	// Buffer bounds the bytes that wait for Take, together with those of other consumers that
	// have the same; nil: one of its own.
	Buffer *Buffer
}

// Delivery is a message handed to a client.
type Delivery struct {
	ID            uint64 // numbers the deliveries of a consumer from 1
	Message       message.Message
	Redelivered   bool // DEL-10
	DeliveryCount uint32
	AcquiredCount uint32
}

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

	mu          sync.Mutex
	uncount     func()             // takes it off what limits count (VH-4); nil: it does not count
	arrived     []traffic.Delivery // not yet taken
	bytes       int64              // of these, as they count in the buffer
	closed      bool               // nothing counts any more
	at          int                // of arrived that are taken
	taken       uint64
	open        unacked
	annotations annotations
	credit      creditBook
	ended       error
	revoked     []uint64 // ids, not taken yet
	active      Activity
	told        Activity // what TakeActivity returned last
}

// Activity reports whether a consumer is the one that receives (SAC-4).
type Activity uint8

// The activities: of a queue without a single active consumer, or not known yet; the one
// that receives; one that waits.
const (
	Shared Activity = iota
	Active
	Waiting
)

// Consume registers a consumer; it returns when the queue's leader has it.
func (b *Broker) Consume(ctx context.Context, o Consume) (*Consumer, error) {
	q, about, err := b.queueToRead(ctx, o.VHost, o.Queue)
	if err != nil {
		return nil, err
	}
	if _, err := b.unknownArguments(ctx, b.view(), about, o.Arguments, policy.UnknownOfConsumer(o.Arguments), true); err != nil {
		return nil, err
	}
	return b.consume(ctx, q, about, o)
}

// consume is Consume of a queue that was found.
func (b *Broker) consume(ctx context.Context, q *gateway.Queue, about failure.Error, o Consume) (*Consumer, error) {
	if o.TimeoutMs < 0 {
		about.Class, about.Arg, about.Value = failure.PreconditionFailed, "consumer_timeout_ms", strconv.FormatInt(o.TimeoutMs, 10)
		about.Reason = "is negative; want 0 for no timeout, or more"
		return nil, &about
	}
	c := &Consumer{b: b, about: about, autoAck: o.AutoAck, ready: make(chan struct{}, 1), woken: o.Wake, origin: b.originOf(ctx, about, &o)}
	if rec, ok := b.record(q.UID()); ok {
		c.autoDelete, c.classic = rec.AutoDelete, rec.Type == catalog.QueueClassic
	}
	if c.buffer = o.Buffer; c.buffer == nil {
		c.buffer = b.NewBuffer()
	}
	c.credit = newCreditBook(&o, b.cfg.DeliveryBufferBytes)
	c.shown = &clients.Consumer{VHost: about.VHost, Queue: about.Name, Look: c.look}
	uncount, err := b.Connections.OpenConsumer(ctx, about.VHost, q.UID())
	if err != nil {
		c.letGo()
		return nil, err
	}
	c.counts(uncount)
	cc, err := q.Consume(ctx, c.settings(&o))
	if err != nil {
		c.letGo()
		return nil, failure.Translate(err, about)
	}
	c.mu.Lock()
	c.c = cc
	c.mu.Unlock()
	b.clients.ShowConsumer(c.shown)
	return c, nil
}

// Classic reports whether the queue is of that type.
func (c *Consumer) Classic() bool { return c.classic }

// record returns what the catalog knows of a queue.
func (b *Broker) record(uid id.QueueUID) (*catalog.QueueRecord, bool) {
	return b.view().QueueByUID(uid)
}

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
	c.arrived = append(c.arrived, ds...)
	c.bytes += bytes
	c.mu.Unlock()
	c.wake()
}

// letGo gives back the room of what arrived and will not be taken, or does not count.
func (c *Consumer) letGo() {
	c.mu.Lock()
	bytes := c.bytes
	c.bytes, c.closed = 0, true
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

// ExtendAckDeadline lets the client have deliveries for so many milliseconds from now, above 0, if
// that is longer than it may (CT-5). Those it does not hold, or without end, stay as they are.
func (c *Consumer) ExtendAckDeadline(ctx context.Context, ids []uint64, ms int64) error {
	about := c.about
	about.Class = failure.PreconditionFailed
	switch {
	case ms <= 0:
		about.Arg, about.Value, about.Reason = "milliseconds", strconv.FormatInt(ms, 10), "want 1 or more"
		return &about
	case len(ids) > MaxSettlementIDs:
		about.Arg, about.Reason = "delivery_ids", "more than 10000 at a time; split them"
		return &about
	}
	var ranges []quorumq.MsgIDRange
	for _, n := range ids {
		m := quorumq.MsgID(n)
		switch last := len(ranges) - 1; {
		case m == 0 || n > maxDeliveryID:
		case last >= 0 && ranges[last].Last+1 == m:
			ranges[last].Last = m
		default:
			ranges = append(ranges, quorumq.MsgIDRange{First: m, Last: m})
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	_, err := c.c.Extend(ctx, ranges, ms)
	return failure.Translate(err, c.about)
}

// maxDeliveryID is above all ids that are given.
const maxDeliveryID = 1 << 62

// TakeActivity returns what the consumer is, and whether that is news. Ready gives a token
// when it may be. For the goroutine of Take.
func (c *Consumer) TakeActivity() (a Activity, news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news = c.active != c.told
	c.told = c.active
	return c.active, news
}

// wake has the client's goroutine look again. One token is enough for all that is new; mu must not be held, since woken
// may take locks of the listener.
func (c *Consumer) wake() {
	if c.woken != nil {
		c.woken()
		return
	}
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Ready returns a channel that gives a token when Take may have something new.
func (c *Consumer) Ready() <-chan struct{} { return c.ready }

// Take appends deliveries that arrived, in order: at most limit and, beyond the first,
// at most maxBytes of stored messages. When the consumer has ended without Close, and all was
// taken, it returns why: NotFound when the queue was deleted.
func (c *Consumer) Take(dst []Delivery, limit, maxBytes int) ([]Delivery, error) {
	c.mu.Lock()
	n, size := 0, 0
	for at := c.at; at < len(c.arrived) && n < limit; at++ {
		size += len(c.arrived[at].Message)
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	batch := c.arrived[c.at : c.at+n]
	c.at += n
	more := c.at < len(c.arrived)
	ended := c.ended
	if n > 0 {
		c.taken = uint64(batch[n-1].MsgID)
		if !c.autoAck {
			c.open.deliveredUpTo(c.taken)
		}
	}
	freed := c.freeLocked(batch)
	c.credit.saw(batch)
	limitID := c.raiseCredit()
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
			about := c.about
			about.Class, about.Reason = failure.Internal, "a stored message cannot be read: "+err.Error()
			return dst, &about
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

// recycle lets go of what was taken, and keeps the room for what arrives next.
func (c *Consumer) recycle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := len(c.arrived); {
	case c.at == 0:
	case c.at == n:
		clear(c.arrived)
		c.arrived, c.at = c.arrived[:0], 0
	case c.at > n/2:
		left := copy(c.arrived, c.arrived[c.at:])
		clear(c.arrived[left:])
		c.arrived, c.at = c.arrived[:left], 0
	}
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

// decodeDelivery reads a stored message with what returns and discards added to it; that
// comes back alone as well.
func decodeDelivery(d *traffic.Delivery) (_ Delivery, added message.Table, err error) {
	m, err := message.Decode(d.Message)
	if err != nil {
		return Delivery{}, nil, err
	}
	if d.Annotations != nil {
		if added, _, err = message.DecodeTable(d.Annotations); err != nil {
			return Delivery{}, nil, err
		}
		m.Annotations = message.MergedAnnotations(m.Annotations, added)
	}
	return Delivery{
		ID: uint64(d.MsgID), Message: *m, Redelivered: d.AcquiredCount > 0,
		DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
	}, added, nil
}
