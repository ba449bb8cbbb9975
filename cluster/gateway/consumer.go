package gateway

import (
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
	"github.com/quorate/quorate/raftfsm"
)

// numbered returns a delivery with the client's number; these begin at 1.
func (c *Consumer) numbered(d traffic.Delivery) traffic.Delivery {
	d.MsgID -= c.base
	return d
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

// creditLocked keeps at most one Credit command in flight. The limit is absolute, so the newest
// command replaces all earlier ones.
func (c *Consumer) creditLocked() {
	if c.ended || !c.open || c.crediting || c.limit <= c.credited {
		return
	}
	c.crediting, c.credited = true, c.limit
	c.q.inbox.ops = append(c.q.inbox.ops, &op{
		header: quorumq.AppendCommand(nil, &quorumq.Credit{Consumer: c.key, Limit: c.base + c.limit}),
		done: func(opResult) {
			c.q.mu.Lock()
			defer c.q.mu.Unlock()
			c.crediting = false
			c.creditLocked()
		},
	})
	c.q.startLocked()
}

// The following run on the queue's goroutine with its mutex.

// rewind forgets what is in flight to the last leader, so that everything still open is sent to the
// next one.
func (c *Consumer) rewind() {
	c.inFlight, c.resuming = 0, false
	c.askAgain() // the next leader does not know that it has to wait
	if c.open {
		c.tracker.Rewind()
	}
}

// opened processes the answer to the registration. If the registration was repeated, nobody knows
// what an earlier one has delivered already, so the consumer asks for everything that it holds. With
// auto-ack it holds nothing, and has only what came early.
func (c *Consumer) opened(r quorumq.Reply, repeated bool, out *outbox) {
	if r.Code != quorumq.CodeOK || c.open {
		return
	}
	c.open = true
	early := c.early
	c.early, c.earlyBytes = nil, 0
	if !repeated || c.cfg.Credit && r.LastMsgID > c.cfg.Limit { // nothing was assigned before this answer
		c.base = r.LastMsgID
	}
	if c.base > 0 {
		c.credited = 0 // the limit that the registration carried is below the first id
	}
	c.tracker = session.NewConsumer(c.key, c.base)
	if !repeated || c.cfg.AutoAck {
		c.handleDeliveries(early, out)
	}
	if repeated {
		c.tracker.Rewind()
	}
	c.creditLocked()
}

// behind reports whether deliveries were missed or left out, and may be requested now.
func (c *Consumer) behind() bool {
	return c.open && !c.ended && !c.space.waits && (c.tracker.NeedsResume() || c.space.short)
}

// pump sends decisions, and requests deliveries that were missed.
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

// patient reports whether acks may wait to share an entry with other commands. They may while
// nobody waits for them, and while the queue can assign the consumer as many messages again without
// them.
func (c *Consumer) patient() bool {
	prefetch := int(c.cfg.Prefetch)
	if prefetch == 0 {
		prefetch = quorumq.MaxOutstanding
	}
	return !c.ended && len(c.flushes) == 0 && 2*(c.tracker.Unsettled()+c.tracker.Deciding()) < prefetch
}

// unsent reports whether decisions wait until earlier ones are answered.
func (c *Consumer) unsent() bool { return !c.lost && c.tracker.Unanswered() > c.inFlight }

// end notifies the client that the consumer is gone, unless the client has closed it.
func (c *Consumer) end(err error, out *outbox) {
	c.finishFlushes(err)
	if c.ended {
		return
	}
	c.ended, c.why = true, err
	c.cfg.Buffer.forget(&c.space)
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
