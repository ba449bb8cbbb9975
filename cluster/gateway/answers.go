package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// handleInbox processes what has happened, and updates the state. Answers and deliveries keep their order: a client
// that cancels gets its last delivery before the answer, and with auto-ack the answer to a resume leaves out for good
// what has not come before it.
func (q *Queue) handleInbox(in inbox, out *outbox) {
	q.ops.add(in.ops)
	at := 0
	for i := range in.answers {
		a := &in.answers[i]
		q.handleDeliveries(in.deliveries[at:a.behind], out)
		at = a.behind
		q.handleResponse(a, out)
	}
	for _, o := range in.recalled {
		q.ops.recall(o, q.uid, out)
	}
	for _, n := range in.lost {
		if n == q.target {
			q.retryLocked("", false)
		}
	}
	if in.leader != nil && *in.leader != q.target {
		q.retryLocked(*in.leader, *in.leader != "")
	}
	q.handleDeliveries(in.deliveries[at:], out)
	if in.leaves {
		q.endConsumers(q.leaves, out)
	}
	for _, n := range in.notices {
		q.handleNotice(n, out)
	}
	if in.wake && q.target == "" {
		q.blocked = false
	}
	if in.tick {
		q.alarm.rang()
		if q.blocked && !time.Now().Before(q.retryAt) {
			q.blocked = false
		}
		q.expireLocked(out)
	}
}

// handleResponse processes the answer to a request. A success counts even if it answers an earlier
// attempt.
func (q *Queue) handleResponse(a *response, out *outbox) {
	f := &a.request
	current := f.attempt == q.attempt
	if current && f.kind == requestEnqueue {
		q.enqueues--
	}
	if current && f.kind == requestOutcome {
		f.cons.inFlight--
	}
	if a.err != nil {
		q.handleFailure(a, current, out)
		return
	}
	if current {
		q.wait = 0
	}
	switch f.kind {
	case requestEnqueue:
		q.handleEnqueued(f, a.reply, out)
	case requestOp:
		if c := f.op.opens; c != nil && !f.op.closed {
			c.opened(a.reply, f.op.uncertain, out)
		}
		q.ops.answer(f.op, opResult{reply: a.reply, got: a.got, repeated: f.op.uncertain}, out)
	case requestOutcome:
		f.cons.handleOutcome(f.number, a.reply, out)
	case requestResume:
		if a.reply.Code == quorumq.CodeUnknownConsumer {
			f.cons.gone(out)
			return
		}
		f.cons.handleHeld(a.held, a.reply.LastMsgID, a.cut, out)
	}
}

// handleEnqueued confirms or refuses messages in order. A stream that the queue refuses for good is
// abandoned, because the queue would never accept its numbers again.
func (q *Queue) handleEnqueued(f *request, r quorumq.Reply, out *outbox) {
	now := time.Time{}
	var confirmed uint64
	var oldest time.Time // deadline of the oldest one confirmed
	q.publisher.Answer(f.first, f.n, r, func(token publishToken, accepted bool) {
		var err error
		if !accepted {
			if now.IsZero() {
				now = time.Now()
			}
			err = q.refusal(token, now, r.Code == quorumq.CodeDrainDeleting)
		} else {
			if confirmed == 0 {
				oldest = token.deadline
			}
			confirmed++
		}
		q.confirmLocked(token, err, out)
	})
	if !oldest.IsZero() {
		q.g.confirms.Observe(q.g.cfg.ConfirmTimeout-time.Until(oldest), confirmed)
	}
	if code := q.publisher.Failed(); code != quorumq.CodeOK {
		err := fmt.Errorf("queue %s: %w: the queue refused this node's stream (code %d); restart the node", q.uid, traffic.ErrUnknownOutcome, code)
		q.publisher.Abandon(func(token publishToken, _ bool) { q.confirmLocked(token, err, out) })
	}
}

// confirmLocked answers one message, which makes room for others.
func (q *Queue) confirmLocked(token publishToken, err error, out *outbox) {
	q.waiting--
	q.bytes -= int64(token.size)
	out.confirmed = append(out.confirmed, confirmation{done: token.done, err: err})
	if q.waiters > 0 {
		q.waiters = 0
		close(q.room)
		q.room = make(chan struct{})
	}
}

// refusal returns the error of a message that was not accepted: it was refused by a limit or by a queue that is being
// deleted, or given up (PUB-5). goes is what the queue reports, not what this node's view shows: so the
// cause is the same on all nodes.
func (q *Queue) refusal(token publishToken, now time.Time, goes bool) error {
	if !token.deadline.IsZero() && !now.Before(token.deadline) {
		return fmt.Errorf("queue %s: %w within %s; the message is not stored", q.uid, traffic.ErrUnavailable, q.g.cfg.ConfirmTimeout)
	}
	if goes {
		return fmt.Errorf("queue %s: %w: %w", q.uid, traffic.ErrRefused, traffic.ErrDrainDeleting)
	}
	return fmt.Errorf("queue %s: %w", q.uid, traffic.ErrRefused)
}

// handleFailure decides what a failed request means for the commands behind it.
func (q *Queue) handleFailure(a *response, current bool, out *outbox) {
	var not *raftfsm.NotLeaderError
	definite := errors.As(a.err, &not) || errors.Is(a.err, raftfsm.ErrBusy) ||
		errors.Is(a.err, raftfsm.ErrStopped) || errors.Is(a.err, traffic.ErrNoSuchQueue)
	if a.request.kind == requestOp {
		q.ops.failed(a.request.op, definite, current, a.err, q.uid, out)
	}
	if !current || errors.Is(a.err, errRefusedForGood) {
		return
	}
	switch {
	case not != nil && not.Leader != "" && not.Leader != q.target:
		q.retryLocked(not.Leader, q.wait == 0)
	case errors.Is(a.err, raftfsm.ErrBusy):
		q.retryLocked(q.target, false)
	default:
		q.retryLocked("", false)
	}
}

// retryLocked begins a new attempt: everything unanswered is sent again, in order, to the named
// node or to whichever node turns out to lead. It begins at once, or after a wait that grows.
func (q *Queue) retryLocked(to id.NodeID, now bool) {
	q.attempt++
	q.enqueues = 0
	q.target = ""
	q.hint = to
	q.publisher.Rewind()
	q.ops.rewind()
	for _, c := range q.consumers {
		c.rewind()
	}
	if now {
		q.blocked = false
		q.wait = max(q.wait, minRetryWait)
		return
	}
	q.wait = min(max(2*q.wait, minRetryWait), maxRetryWait)
	q.blocked, q.retryAt = true, time.Now().Add(q.wait)
}

// expireLocked gives up what has waited too long (PUB-5, RE-5), pending deliveries of cancelled
// consumers included. It also returns messages to the queue that a Get took and nobody settled.
func (q *Queue) expireLocked(out *outbox) {
	now := time.Now()
	q.publisher.Void(
		func(token publishToken) bool { return !token.deadline.IsZero() && !now.Before(token.deadline) },
		func(token publishToken, _ bool) { q.confirmLocked(token, q.refusal(token, now, false), out) })
	q.ops.expire(now, q.uid, out)
	for _, c := range q.consumers {
		c.expire(now, out)
	}
	for _, cmd := range q.gets.expire(now) {
		q.ops.add([]*op{unheard(cmd)})
	}
}

// armLocked sets the alarm for the next thing to do.
func (q *Queue) armLocked() {
	now := time.Now()
	switch {
	case q.blocked:
		q.alarm.set(now, q.retryAt)
	case q.busyLocked():
		q.alarm.set(now, now.Add(tickEvery))
	default:
		if in := q.gets.next(now); in > 0 {
			q.alarm.set(now, now.Add(in))
		}
	}
}

// busyLocked reports whether somebody still waits for an answer of the queue; q.mu is held.
func (q *Queue) busyLocked() bool {
	if q.waiting > 0 || q.ops.len() > 0 {
		return true
	}
	for _, c := range q.consumers {
		if c.behind() || c.tracker.Unanswered() > 0 {
			return true
		}
	}
	return false
}

// handleOutcome processes the answer to a decision.
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

// gone ends a consumer that the queue no longer knows, for example after a long absence of this
// node, or because the queue is being deleted.
func (c *Consumer) gone(out *outbox) {
	why := fmt.Errorf("queue %s: %w: the queue closed its session; consume again", c.q.uid, traffic.ErrConsumerGone)
	c.lose(cmp.Or(c.why, why), out)
}
