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

// Get returns one message, nil if none is ready, and how many are left. Unless autoAck is set, the
// token settles the message on any node within GetAckTimeout; after that it returns to the queue.
func (q *Queue) Get(ctx context.Context, autoAck bool) (d *traffic.Delivery, t ConsumerToken, ready uint64, err error) {
	for {
		key := q.getKey()
		r, got, err := q.do(ctx, &quorumq.Get{Session: key, AutoAck: autoAck}, op{repeat: once})
		if errors.Is(err, traffic.ErrUnknownOutcome) {
			q.retire(key)
			if !autoAck && ctx.Err() == nil {
				continue // a message that the lost answer assigned returns to the queue
			}
		}
		if err != nil {
			return nil, t, 0, err
		}
		if r.Code == quorumq.CodeSingleActive {
			return nil, t, 0, fmt.Errorf("queue %s: %w: consume instead", q.uid, traffic.ErrSingleActive)
		}
		if r.Code == quorumq.CodeDrainDeleting {
			return nil, t, 0, fmt.Errorf("queue %s: %w: its messages are dead-lettered", q.uid, traffic.ErrDrainDeleting)
		}
		if r.Code != quorumq.CodeOK {
			return nil, t, 0, fmt.Errorf("queue %s: %w: the queue refused the request (code %d)", q.uid, traffic.ErrConsumerGone, r.Code)
		}
		if got == nil {
			return nil, t, r.Count, nil
		}
		t = ConsumerToken{Queue: q.uid, Consumer: got.Consumer, MsgID: got.MsgID}
		if !autoAck {
			q.ackDeadline(t)
		}
		return got, t, r.Count, nil
	}
}

// getKey returns the session of all Gets of this node, and opens it at the first one.
func (q *Queue) getKey() quorumq.SessionKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.get.key == (quorumq.SessionKey{}) {
		q.get.key = q.newSession()
	}
	return q.get.key
}

// retire closes a session whose state is unknown. Its tokens become invalid, and their messages
// return to the queue, not as failed.
func (q *Queue) retire(key quorumq.SessionKey) {
	q.mu.Lock()
	first := q.get.key == key
	if first {
		q.get.key = quorumq.SessionKey{}
	}
	q.mu.Unlock()
	if !first {
		return
	}
	ignore := func(opAnswer) {}
	q.post(&op{header: quorumq.AppendCommand(nil, &quorumq.Cancel{
		Consumer: quorumq.ConsumerKey{SessionKey: key}, Requeue: true,
	}), done: ignore})
	q.post(&op{header: quorumq.AppendCommand(nil, &quorumq.SessionClosed{Session: key}), done: ignore})
}

// ackDeadline makes sure that a message from Get returns to the queue if nobody decides about it.
func (q *Queue) ackDeadline(t ConsumerToken) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.get.ackDeadlines = append(q.get.ackDeadlines, ackDeadline{consumer: t.Consumer, msg: t.MsgID, end: time.Now().Add(GetAckTimeout)})
	q.inbox.wake = true
	q.startLocked()
}

// DecideToken settles a message that Get returned on any node. After traffic.ErrConsumerGone or
// traffic.ErrNotHeld the message was no longer held and nothing changed, or an earlier attempt of
// this call settled it and its answer was lost.
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
	r, _, err := q.do(ctx, cmd, op{bodies: bodies})
	if err != nil {
		return err
	}
	return notHeld(t, r.Code)
}

// notHeld returns an error if the answer to a decision says that its message was not held.
func notHeld(t ConsumerToken, code quorumq.ReplyCode) error {
	switch code {
	case quorumq.CodeUnknownConsumer:
		return fmt.Errorf("queue %s: %w: the message has returned to the queue; get it again", t.Queue, traffic.ErrConsumerGone)
	case quorumq.CodeNotHeld:
		return fmt.Errorf("queue %s: %w", t.Queue, traffic.ErrNotHeld)
	default:
		return nil
	}
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
	r, _, err := q.do(ctx, &quorumq.Transact{
		Consumer: t.Consumer, Ranges: t.ranges(held), Outputs: outputs,
	}, op{bodies: bodies, repeat: once})
	if err != nil {
		return err
	}
	if err := notHeld(t, r.Code); err != nil {
		return err
	}
	switch r.Code {
	case quorumq.CodeOK:
		return nil
	case quorumq.CodeTooMany:
		return fmt.Errorf("queue %s: %w: wait until some of them have arrived", t.Queue, traffic.ErrTooManyMoves)
	default:
		return fmt.Errorf("queue %s: the queue refused the request (code %d)", t.Queue, r.Code)
	}
}
