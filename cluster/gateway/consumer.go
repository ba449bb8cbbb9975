package gateway

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
	"github.com/quorate/quorate/raftfsm"
)

// numbered returns a delivery as the client gets to see it: it numbers its messages from 1.
func (c *Consumer) numbered(d traffic.Delivery) traffic.Delivery {
	d.MsgID -= c.base
	return d
}

// ConsumerConfig has the settings and callbacks of a consumer; see quorumq.Checkout.
type ConsumerConfig struct {
	Prefetch  uint32
	Credit    bool
	Limit     quorumq.MsgID
	AutoAck   bool
	Priority  int32
	Exclusive bool
	// TimeoutMs is the consumer's own timeout, if HasTimeout (CT-1).
	HasTimeout bool
	TimeoutMs  int64
	// Deliver receives new deliveries in order, each once, with the client's numbers: its MsgID
	// begins at 1. It must not block, and owns the slice. The slice is empty if HasPending became
	// false without new deliveries.
	Deliver func([]traffic.Delivery)
	// Buffer, if not nil, limits the bytes passed to Deliver; its owner calls Release.
	Buffer *Buffer
	// Active, if not nil, is called with whether the consumer is the active one of a queue with a
	// single active consumer (SAC-4), in order and possibly repeatedly. It must not block.
	Active func(bool)
	// Revoked, if not nil, is called when the ack deadline of messages has passed and they are back
	// in the queue (CT-3). A change of leader may lose the call. It must not block.
	Revoked func(quorumq.MsgIDRange)
	// Ended is called once, as the last callback, when the consumer ends without Close: the queue
	// was deleted (traffic.ErrNoSuchQueue), is being deleted (traffic.ErrDrainDeleting), or
	// cancelled (traffic.ErrConsumerGone).
	Ended func(error)
}

// DecisionKind is the kind of a settlement (DEL-8).
type DecisionKind uint8

// The decisions.
const (
	Ack DecisionKind = iota + 1
	Requeue
	Discard
)

// Decision is how a client settles messages.
type Decision struct {
	Kind   DecisionKind
	Failed bool // counts as a failed delivery; not for Ack
	// Annotations is the stored form of a table to be merged into the message; nil: none.
	Annotations []byte
	// Delay is when the messages become ready; for Requeue only (DR-4).
	Delay quorumq.Delay
}

// Consumer is a consumer of this node's client. All methods may be called concurrently.
// Its state belongs to the mutex of its queue.
type Consumer struct {
	q       *Queue
	cfg     ConsumerConfig
	key     quorumq.ConsumerKey
	tracker *session.Consumer
	open    bool          // the queue has registered it: tracker numbers from where the queue does
	base    quorumq.MsgID // the queue's id before the client's first
	// early holds deliveries that overtook the answer to the registration.
	early      []traffic.Delivery
	earlyBytes int64

	inFlight  int  // decisions sent in this attempt and not answered
	resuming  bool // a resume is on its way in this attempt
	space     space
	ended     bool
	lost      bool          // the queue has ended it: nothing of it is sent any more
	limit     quorumq.MsgID // newest credit, in the client's numbers
	crediting bool          // a Credit command waits for its answer
	credited  quorumq.MsgID // the limit that it, or the last one, carries
	flushes   []flush
}

// flush waits until all decisions up to a number are answered.
type flush struct {
	upTo uint64
	done chan error
}

// Decide settles the delivered messages r for the client and returns how many of them were unacked.
// Settlements are sent in the order of the calls, and repeated after failures.
func (c *Consumer) Decide(r quorumq.MsgIDRange, d Decision) int {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if c.ended {
		return 0
	}
	n := 0
	r.First, r.Last = r.First+c.base, r.Last+c.base
	switch d.Kind {
	case Ack:
		n = c.tracker.Settle(r)
	case Requeue:
		n = c.tracker.Requeue(r, d.Failed, d.Annotations, d.Delay)
	case Discard:
		n = c.tracker.Discard(r, d.Failed, d.Annotations)
	}
	if n > 0 {
		c.q.inbox.wake = true
		c.q.startLocked()
	}
	return n
}

// Flush waits until every decision made so far is committed.
func (c *Consumer) Flush(ctx context.Context) error {
	c.q.mu.Lock()
	f := flush{upTo: c.tracker.Decided(), done: make(chan error, 1)}
	if c.ended || c.tracker.Committed() >= f.upTo {
		c.q.mu.Unlock()
		return nil
	}
	c.flushes = append(c.flushes, f)
	to := c.q.target
	c.q.mu.Unlock()
	c.q.g.flush(to, c.q.uid)
	select {
	case err := <-f.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("queue %s: decisions are not committed: %w", c.q.uid, ctx.Err())
	}
}

// Credit allows messages up to the id limit, with ConsumerConfig.Credit.
func (c *Consumer) Credit(limit quorumq.MsgID) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	c.limit = max(c.limit, limit)
	c.creditLocked()
}

// creditLocked keeps one Credit command on its way; the limit is absolute, so that the
// newest says all.
func (c *Consumer) creditLocked() {
	if c.ended || !c.open || c.crediting || c.limit <= c.credited {
		return
	}
	c.crediting, c.credited = true, c.limit
	c.q.inbox.ops = append(c.q.inbox.ops, &op{
		header: quorumq.AppendCommand(nil, &quorumq.Credit{Consumer: c.key, Limit: c.base + c.limit}),
		done: func(opAnswer) {
			c.q.mu.Lock()
			defer c.q.mu.Unlock()
			c.crediting = false
			c.creditLocked()
		},
	})
	c.q.startLocked()
}

// Cancel ends deliveries. Unsettled messages stay with the client, or with requeue return, not
// failed.
func (c *Consumer) Cancel(ctx context.Context, requeue bool) error {
	_, _, err := c.q.do(ctx, &quorumq.Cancel{Consumer: c.key, Requeue: requeue}, op{after: c})
	return err
}

// Extend moves the ack deadlines of messages that the client still holds to ms milliseconds from
// now, and returns how many deadlines it extended (CT-5).
func (c *Consumer) Extend(ctx context.Context, ranges []quorumq.MsgIDRange, ms int64) (uint64, error) {
	c.q.mu.Lock()
	base := c.base
	c.q.mu.Unlock()
	moved := make([]quorumq.MsgIDRange, len(ranges))
	for i, r := range ranges {
		moved[i] = quorumq.MsgIDRange{First: r.First + base, Last: r.Last + base}
	}
	r, _, err := c.q.do(ctx, &quorumq.Extend{Consumer: c.key, TimeoutMs: ms, Ranges: moved}, op{after: c})
	if err == nil && r.Code != quorumq.CodeOK {
		err = fmt.Errorf("queue %s: %w: the queue refused to extend the ack deadline (code %d)", c.q.uid, traffic.ErrConsumerGone, r.Code)
	}
	return r.Count, err
}

// Queue returns the UID of the consumer's queue.
func (c *Consumer) Queue() id.QueueUID { return c.q.uid }

// Close ends the consumer's session: unsettled messages return as failed deliveries. It does not
// wait.
func (c *Consumer) Close() { c.CloseThen(func() {}) }

// CloseThen is like Close, and calls closed once the queue has closed the session, or never will.
// That may be before CloseThen returns.
func (c *Consumer) CloseThen(closed func()) {
	q := c.q
	q.mu.Lock()
	if c.ended || q.ended != nil {
		q.mu.Unlock()
		closed()
		return
	}
	c.ended = true
	c.cfg.Buffer.forget(c)
	q.mu.Unlock()
	// The tracker stays until the queue knows: decisions made so far go first.
	q.post(&op{
		after:  c,
		header: quorumq.AppendCommand(nil, &quorumq.SessionClosed{Session: c.key.SessionKey}),
		done: func(opAnswer) {
			q.mu.Lock()
			delete(q.consumers, c.key.Session)
			c.finishFlushes(traffic.ErrConsumerGone)
			q.mu.Unlock()
			closed()
		},
	})
}

// The following run on the queue's goroutine with its mutex.

// rewind forgets what is on its way to the last leader; the next one has to be told all that is still open.
func (c *Consumer) rewind() {
	c.inFlight, c.resuming = 0, false
	c.askAgain() // the next leader does not know that it shall wait
	if c.open {
		c.tracker.Rewind()
	}
}

// opened takes the answer to the registration. After a repeat nobody knows what an
// earlier one has delivered already: everything that the consumer holds is asked for.
func (c *Consumer) opened(r quorumq.Reply, repeated bool, out *outbox) {
	if r.Code != quorumq.CodeOK || c.open {
		return
	}
	c.open = true
	early := c.early
	c.early, c.earlyBytes = nil, 0
	if !repeated || c.cfg.Credit && r.LastMsgID > c.cfg.Limit { // nothing was assigned so far
		c.base = r.LastMsgID
	}
	if c.base > 0 {
		c.credited = 0 // the limit that the registration carried is below the first id
	}
	c.tracker = session.NewConsumer(c.key, c.base)
	if repeated {
		c.tracker.Rewind()
	} else {
		c.handleDeliveries(early, out)
	}
	c.creditLocked()
}

// behind reports whether deliveries were missed, or left out, and may be asked for.
func (c *Consumer) behind() bool {
	return c.open && !c.ended && !c.space.waits && (c.tracker.NeedsResume() || c.space.short)
}

// pump sends decisions, and asks for what was missed.
func (c *Consumer) pump(out *outbox) {
	q := c.q
	if c.behind() && !c.resuming {
		c.resuming = true
		g, to, key, after, room := q.g, q.target, c.key, c.tracker.Last(), c.roomToAskFor()
		f := request{queue: q, attempt: q.attempt, kind: requestResume, cons: c}
		out.sends = append(out.sends, func() { g.resume(to, f, key, after, room) })
	}
	for c.inFlight < maxOutcomesInFlight {
		cmd, number, body, ok := c.tracker.Next()
		if !ok {
			return
		}
		c.inFlight++
		var bodies [][]byte
		if body != nil {
			bodies = [][]byte{body}
		}
		f := request{queue: q, attempt: q.attempt, kind: requestOutcome, cons: c, number: number}
		_, ack := cmd.(*quorumq.Settle)
		q.sendLocked(out, f, raftfsm.Command{Header: quorumq.AppendCommand(nil, cmd), Bodies: bodies, Deferrable: ack && c.patient()})
	}
}

// patient reports whether acks may wait for other commands to share an entry with: nobody waits
// for them, and the queue may give the consumer as much again before it has heard of them.
func (c *Consumer) patient() bool {
	prefetch := int(c.cfg.Prefetch)
	if prefetch == 0 {
		prefetch = quorumq.MaxOutstanding
	}
	return !c.ended && len(c.flushes) == 0 && 2*(c.tracker.Unsettled()+c.tracker.Deciding()) < prefetch
}

// unsent reports whether there are decisions that wait for earlier ones to be answered.
func (c *Consumer) unsent() bool { return !c.lost && c.tracker.Unanswered() > c.inFlight }

// handleOutcome takes the answer to a decision.
func (c *Consumer) handleOutcome(number uint64, r quorumq.Reply, out *outbox) {
	c.tracker.Answer(number, r)
	if c.tracker.Gone() {
		c.gone(out)
		return
	}
	done := c.tracker.Committed()
	kept := c.flushes[:0]
	for _, f := range c.flushes {
		if f.upTo > done {
			kept = append(kept, f)
			continue
		}
		f.done <- nil
	}
	c.flushes = kept
}

// gone ends a consumer that the queue says it does not know, as after a long absence of
// this node.
func (c *Consumer) gone(out *outbox) {
	c.lose(fmt.Errorf("queue %s: %w: the queue closed its session; consume again", c.q.uid, traffic.ErrConsumerGone), out)
}

// lose notifies the client that the consumer is gone, and closes its session: whoever said
// so may have been a leader of the past, or a registration may still be on its way.
func (c *Consumer) lose(err error, out *outbox) {
	c.lost = true
	c.end(err, out)
	delete(c.q.consumers, c.key.Session)
	c.q.inbox.ops = append(c.q.inbox.ops, &op{
		header: quorumq.AppendCommand(nil, &quorumq.SessionClosed{Session: c.key.SessionKey}),
		done:   func(opAnswer) {},
	})
}

// end notifies the client that the consumer is gone, unless it closed it itself.
func (c *Consumer) end(err error, out *outbox) {
	c.finishFlushes(err)
	if c.ended {
		return
	}
	c.ended = true
	c.cfg.Buffer.forget(c)
	if c.cfg.Ended != nil {
		out.calls = append(out.calls, func() { c.cfg.Ended(err) })
	}
}

// finishFlushes answers all flushes, each once. Their channels have room, so it never blocks.
func (c *Consumer) finishFlushes(err error) {
	for _, f := range c.flushes {
		f.done <- err
	}
	c.flushes = nil
}
