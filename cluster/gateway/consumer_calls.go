package gateway

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Decide settles the delivered messages r for the client and returns how many of them were unacked: 0
// if the consumer has ended. Settlements are sent in the order of the calls, and repeated after
// failures.
func (c *Consumer) Decide(r quorumq.MsgIDRange, d Decision) int {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if c.ended {
		c.missed = true
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

// Missed returns why the consumer has ended, if its client did not close it and has decided something
// since, which had no effect. Otherwise it returns nil.
func (c *Consumer) Missed() error {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if !c.missed {
		return nil
	}
	return c.why
}

// Void counts decisions of the client that have had no effect, because the queue had taken their messages back (CT-2). It
// counts what the queue has answered so far, and not what Missed reports.
func (c *Consumer) Void() uint64 {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	return c.tracker.Void()
}

// Flush waits until every decision is committed that Decide has taken so far. If the consumer has
// ended before that, Flush returns why: traffic.ErrConsumerGone, or an error of ConsumerConfig.Ended.
func (c *Consumer) Flush(ctx context.Context) error {
	c.q.mu.Lock()
	f := flush{upTo: c.tracker.Decided(), done: make(chan error, 1)}
	if c.tracker.Committed() >= f.upTo {
		c.q.mu.Unlock()
		return nil
	}
	if c.q.consumers[c.key.Session] != c { // answers no longer count
		defer c.q.mu.Unlock()
		return cmp.Or(c.why, fmt.Errorf("queue %s: %w: not all decisions were committed", c.q.uid, traffic.ErrConsumerGone))
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

// Cancel ends deliveries. Unsettled messages stay with the client or, with requeue, return to the
// queue, not as failed. What is pending then (HasPending) still comes, but the consumer ends if no
// leader sends it for as long as commands wait for one (RE-5).
func (c *Consumer) Cancel(ctx context.Context, requeue bool) error {
	_, _, err := c.q.do(ctx, &quorumq.Cancel{Consumer: c.key, Requeue: requeue}, op{after: c})
	if err != nil {
		return err
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	c.cancelled, c.pendingSince = true, time.Time{}
	return nil
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
	c.cfg.Buffer.forget(&c.space)
	q.mu.Unlock()
	// The tracker stays until the queue has closed the session, so that earlier decisions go first.
	q.post(&op{
		after:  c,
		header: quorumq.AppendCommand(nil, &quorumq.SessionClosed{Session: c.key.SessionKey}),
		done: func(opResult) {
			q.mu.Lock()
			delete(q.consumers, c.key.Session)
			c.finishFlushes(traffic.ErrConsumerGone)
			q.mu.Unlock()
			closed()
		},
	})
}

// HasPending reports whether the queue has assigned messages to the consumer with which Deliver has not been called:
// because its Buffer had no room or, with auto-ack, because the queue has not yet reported the messages before them
// as lost. When no such messages are left, Deliver is called once more.
func (c *Consumer) HasPending() bool {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	return c.handing > 0 || c.lacks() && !c.ended
}
