package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// ConsumerToken identifies, on any node, a message that a consumer holds (AM-8). The token of a
// consumer with many messages identifies all of them: MsgID is then the offset of its client's
// numbers.
type ConsumerToken struct {
	Queue    id.QueueUID
	Consumer quorumq.ConsumerKey
	MsgID    quorumq.MsgID
}

// Token returns a token for all messages that the consumer holds, for Transact.
func (c *Consumer) Token() ConsumerToken {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	return ConsumerToken{Queue: c.q.uid, Consumer: c.key, MsgID: c.base}
}

// OfStream reports whether the token belongs to a consumer with many messages, not to one Get.
func (t *ConsumerToken) OfStream() bool { return t.Consumer.Tag != 0 }

// ranges returns the messages that a token names: one message or, for a consumer with many, those
// with the client's numbers in held.
func (t *ConsumerToken) ranges(held []quorumq.MsgIDRange) []quorumq.MsgIDRange {
	if !t.OfStream() {
		return []quorumq.MsgIDRange{{First: t.MsgID, Last: t.MsgID}}
	}
	out := make([]quorumq.MsgIDRange, len(held))
	for i, r := range held {
		out[i] = quorumq.MsgIDRange{First: r.First + t.MsgID, Last: r.Last + t.MsgID}
	}
	return out
}

// get is one Get. left belongs to the queue's mutex.
type get struct {
	q       *Queue
	s       *getSession
	autoAck bool
	op      *op
	left    bool          // nobody waits for the answer any more
	answers chan opResult // gets the answer, unless left is set
}

// Get returns one message, nil if none is ready, and how many are left. Unless autoAck is set, the
// token settles the message on any node within GetAckTimeout; after that it returns to the queue. If
// ctx ends first, a message that arrives later returns to the queue at once; with autoAck it is lost,
// and the error wraps traffic.ErrUnknownOutcome, too. However many leaders fail, Get takes no longer
// than other commands (RE-5).
func (q *Queue) Get(ctx context.Context, autoAck bool) (d *traffic.Delivery, t ConsumerToken, ready uint64, err error) {
	end := time.Now().Add(q.g.cfg.CommandTimeout)
	for {
		a := q.ask(autoAck, end).await(ctx)
		if errors.Is(a.err, traffic.ErrUnknownOutcome) && !autoAck && ctx.Err() == nil {
			// A message that the lost answer assigned returns to the queue.
			if time.Now().Before(end) {
				continue
			}
			a.err = fmt.Errorf("queue %s: %w: no leader has answered within %s", q.uid, traffic.ErrUnavailable, q.g.cfg.CommandTimeout)
		}
		r, got, err := a.reply, a.got, a.err
		if err != nil {
			return nil, t, 0, err
		}
		if r.Code == quorumq.CodeSingleActive {
			return nil, t, 0, fmt.Errorf("queue %s: %w: consume instead", q.uid, traffic.ErrSingleActive)
		}
		if r.Code == quorumq.CodeDrainDeleting {
			return nil, t, 0, fmt.Errorf("queue %s: %w", q.uid, traffic.ErrDrainDeleting)
		}
		if r.Code != quorumq.CodeOK {
			return nil, t, 0, fmt.Errorf("queue %s: %w: the queue refused the request (code %d)", q.uid, traffic.ErrConsumerGone, r.Code)
		}
		if got == nil {
			return nil, t, r.Count, nil
		}
		t = ConsumerToken{Queue: q.uid, Consumer: got.Consumer, MsgID: got.MsgID}
		if err := ctx.Err(); err != nil && !autoAck { // the client has gone meanwhile
			q.returnUnseen(&t)
			return nil, ConsumerToken{}, 0, q.errLeft(err)
		}
		return got, t, r.Count, nil
	}
}

// ask sends a Get in the queue's order. It is sent once, because a second one could take another
// message. end is when it is given up.
func (q *Queue) ask(autoAck bool, end time.Time) *get {
	t := &get{q: q, autoAck: autoAck, answers: make(chan opResult, 1)}
	q.mu.Lock()
	t.s = q.gets.open(q.newSession)
	t.s.asked++
	q.mu.Unlock()
	t.op = &op{
		header: quorumq.AppendCommand(nil, &quorumq.Get{Session: t.s.key, AutoAck: autoAck}), repeat: never,
		deadline: end, done: t.answered,
	}
	q.post(t.op)
	return t
}

// await waits for the answer, but no longer than ctx.
func (t *get) await(ctx context.Context) opResult {
	select {
	case a := <-t.answers:
		return a
	case <-ctx.Done():
	}
	if a, has := t.leave(); has {
		return a
	}
	err := t.q.errLeft(ctx.Err())
	if t.autoAck {
		err = fmt.Errorf("%w: %w", traffic.ErrUnknownOutcome, err)
	}
	return opResult{err: err}
}

// leave ends the wait for the answer, unless the answer has just come. A Get that was not sent is
// withdrawn. One that was sent goes on, and answered returns what it takes: other clients hold
// messages of the same session, so the session cannot be closed for it.
func (t *get) leave() (a opResult, has bool) {
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case a = <-t.answers:
		return a, true
	default:
	}
	t.left = true
	if q.ended == nil {
		q.inbox.recalled = append(q.inbox.recalled, t.op)
		q.startLocked()
	}
	return a, false
}

// answered records the answer. A message that arrives with nobody waiting returns to the queue, not
// as failed.
func (t *get) answered(a opResult) {
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	t.s.asked--
	switch {
	case t.autoAck: // the queue holds nothing for it
	case errors.Is(a.err, traffic.ErrUnknownOutcome):
		t.s.doubtful = true
	case a.got == nil:
	case t.left:
		q.issueLocked(putBack(a.got.Consumer, a.got.MsgID))
	default:
		t.s.hold(a.got.MsgID, time.Now().Add(GetAckTimeout))
	}
	if !t.left {
		t.answers <- a
	}
	q.sweepLocked()
}

// errLeft is the error of a Get whose caller has gone.
func (q *Queue) errLeft(why error) error {
	return fmt.Errorf("queue %s: nobody waits for the message any more: %w", q.uid, why)
}

// putBack returns a command that requeues one message, not as failed.
func putBack(k quorumq.ConsumerKey, m quorumq.MsgID) quorumq.Command {
	return &quorumq.Requeue{Consumer: k, Ranges: []quorumq.MsgIDRange{{First: m, Last: m}}}
}

// returnUnseen returns a message that no client has seen to the queue.
func (q *Queue) returnUnseen(t *ConsumerToken) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.issueLocked(putBack(t.Consumer, t.MsgID))
	q.dropLocked(t.Consumer, t.MsgID)
}

// dropLocked forgets the holds on messages that are settled or returned. It reports whether this node
// had given any of them and not ended it.
func (q *Queue) dropLocked(k quorumq.ConsumerKey, ids ...quorumq.MsgID) (held bool) {
	s := q.gets.of(k)
	if s == nil {
		return false
	}
	for _, m := range ids {
		held = s.drop(m) || held
	}
	q.sweepLocked()
	return held
}

// sweepLocked clears and closes doubtful sessions, and sees to the next ack deadline.
func (q *Queue) sweepLocked() {
	q.issueLocked(q.gets.sweep()...)
	if q.ended == nil {
		q.armLocked()
	}
}

// issueLocked adds commands whose answers nobody needs.
func (q *Queue) issueLocked(cmds ...quorumq.Command) {
	for _, c := range cmds {
		q.inbox.ops = append(q.inbox.ops, unheard(c))
	}
	if len(cmds) > 0 && q.ended == nil {
		q.startLocked()
	}
}

// HoldEnded reports whether the hold of a Get of this node is known to have ended: its time ran out,
// or its message was settled or returned through this node.
func (g *Gateway) HoldEnded(t ConsumerToken) bool {
	if t.OfStream() || t.Consumer.Node != g.cfg.Node || t.Consumer.Epoch != g.cfg.Epoch {
		return false
	}
	q, ok := g.known(t.Queue)
	if !ok {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return false
	}
	s := q.gets.of(t.Consumer)
	if s == nil {
		return true
	}
	_, held := s.held[t.MsgID]
	return !held
}

// DecideToken settles a message that Get returned on any node. After traffic.ErrConsumerGone or
// traffic.ErrNotHeld the message was no longer held and nothing changed, or an earlier attempt of
// this call settled it and its answer was lost. If this node gave the token and knows of no other
// end of the hold, so that it must have been the earlier attempt, the error wraps
// traffic.ErrUnknownOutcome, too.
func (g *Gateway) DecideToken(ctx context.Context, t ConsumerToken, d Decision) error {
	q, err := g.Queue(t.Queue)
	if err != nil {
		return err
	}
	ranges := []quorumq.MsgIDRange{{First: t.MsgID, Last: t.MsgID}}
	var bodies [][]byte
	if d.Annotations != nil {
		bodies = [][]byte{d.Annotations}
	}
	var cmd quorumq.Command
	switch d.Kind {
	case Ack:
		cmd, bodies = &quorumq.Settle{Consumer: t.Consumer, Ranges: ranges}, nil
	case Requeue:
		cmd = &quorumq.Requeue{Consumer: t.Consumer, Ranges: ranges, Failed: d.Failed, HasAnnotations: bodies != nil, Delay: d.Delay}
	case Discard:
		cmd = &quorumq.Discard{Consumer: t.Consumer, Ranges: ranges, Failed: d.Failed, HasAnnotations: bodies != nil}
	default:
		return fmt.Errorf("queue %s: decision %d is unknown: acknowledge, return or discard", t.Queue, d.Kind)
	}
	r, repeated, err := q.do(ctx, cmd, op{bodies: bodies})
	if err != nil {
		return err
	}
	err = q.decided(t.Consumer, []quorumq.MsgID{t.MsgID}, r.Code, repeated)
	if err == nil && r.Code != quorumq.CodeOK {
		err = q.errCode(r.Code)
	}
	return err
}

// errCode is the error of a command that the queue has not carried out, for a reason without an error of its own.
func (q *Queue) errCode(code quorumq.ReplyCode) error {
	return fmt.Errorf("queue %s: the queue refused the request (code %d)", q.uid, code)
}

// decided records the answer to a decision about messages that Gets took. It returns an error if none
// was held; repeated says that an earlier attempt may have settled them.
func (q *Queue) decided(k quorumq.ConsumerKey, ids []quorumq.MsgID, code quorumq.ReplyCode, repeated bool) error {
	if code != quorumq.CodeOK && code != quorumq.CodeUnknownConsumer && code != quorumq.CodeNotHeld {
		return nil
	}
	q.mu.Lock()
	held := q.dropLocked(k, ids...)
	q.mu.Unlock()
	switch {
	case code == quorumq.CodeUnknownConsumer:
		return fmt.Errorf("queue %s: %w: the message has returned to the queue; get it again", q.uid, traffic.ErrConsumerGone)
	case code == quorumq.CodeNotHeld && repeated && held:
		return fmt.Errorf("queue %s: %w: %w: an earlier attempt may have settled it", q.uid, traffic.ErrNotHeld, traffic.ErrUnknownOutcome)
	case code == quorumq.CodeNotHeld:
		return fmt.Errorf("queue %s: %w", q.uid, traffic.ErrNotHeld)
	}
	return nil
}

// Transact atomically settles a message that Get returned on any node, or messages of another
// consumer by its client's numbers, and passes outputs with their stored forms to their queue for
// publishing (G-22). After traffic.ErrConsumerGone or traffic.ErrNotHeld nothing was done, or an
// earlier attempt did it; after traffic.ErrUnknownOutcome the outcome is unknown.
func (g *Gateway) Transact(ctx context.Context, t ConsumerToken, held []quorumq.MsgIDRange, outputs []quorumq.Output, bodies [][]byte) error {
	q, err := g.Queue(t.Queue)
	if err != nil {
		return err
	}
	if err := g.cfg.Rooms.Admit(t.Queue); err != nil {
		return err
	}
	r, repeated, err := q.do(ctx, &quorumq.Transact{
		Consumer: t.Consumer, Ranges: t.ranges(held), Outputs: outputs,
	}, op{bodies: bodies, repeat: once})
	if err != nil {
		return err
	}
	if err := q.decided(t.Consumer, []quorumq.MsgID{t.MsgID}, r.Code, repeated); err != nil {
		return err
	}
	switch r.Code {
	case quorumq.CodeOK:
		return nil
	case quorumq.CodeTooMany:
		return fmt.Errorf("queue %s: %w: wait until some of them have arrived", t.Queue, traffic.ErrTooManyMoves)
	default:
		return q.errCode(r.Code)
	}
}
