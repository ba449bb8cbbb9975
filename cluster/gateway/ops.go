package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// op is one command besides messages and decisions: it is sent in order with others and
// answered once.
type op struct {
	header   []byte
	bodies   [][]byte
	repeat   repeat
	recall   bool      // is taken back when its caller's context ends before it is sent
	deadline time.Time // zero: none
	done     func(opAnswer)
	// after, if not nil, is the consumer whose decisions go first.
	after *Consumer
	// opens, if not nil, is the consumer that this command registers.
	opens *Consumer

	sent      bool // in this attempt
	uncertain bool // an earlier attempt may have reached the log
	closed    bool // answered
}

// repeat says what to do when nobody knows whether a command took effect.
type repeat uint8

const (
	// again: a repeat does nothing new; send it until it is answered.
	again repeat = iota
	// once: report traffic.ErrUnknownOutcome; the caller decides.
	once
)

// opAnswer is how an op ended: the queue's reply, or why there is none.
type opAnswer struct {
	reply quorumq.Reply
	got   *traffic.Delivery
	err   error
}

// opQueue holds a queue's unanswered commands in order. It belongs to the queue's mutex.
type opQueue struct {
	ops  []*op
	next int // first one not sent in this attempt
}

func (l *opQueue) len() int { return len(l.ops) }

func (l *opQueue) add(ops []*op) { l.ops = append(l.ops, ops...) }

// hasUnsent reports whether commands wait to be sent.
func (l *opQueue) hasUnsent() bool { return l.next < len(l.ops) }

// rewind marks what was sent as uncertain: the last leader may have committed it.
func (l *opQueue) rewind() {
	l.next = 0
	for _, o := range l.ops {
		o.uncertain = o.uncertain || o.sent
		o.sent = false
	}
}

// pump sends ops in order, and none before the one that it has to come after.
func (l *opQueue) pump(q *Queue, out *outbox) {
	for ; l.next < len(l.ops); l.next++ {
		o := l.ops[l.next]
		if o.after != nil && o.after.unsent() {
			return
		}
		o.sent = true
		q.sendLocked(out, request{queue: q, attempt: q.attempt, kind: requestOp, op: o}, raftfsm.Command{Header: o.header, Bodies: o.bodies})
	}
}

// answer does nothing the second time: a late answer of a former leader may follow.
func (l *opQueue) answer(o *op, a opAnswer, out *outbox) {
	if o.closed {
		return
	}
	o.closed = true
	l.remove(o)
	out.calls = append(out.calls, func() { o.done(a) })
}

// failed takes an unanswered command out if it must not be sent again. current reports that
// the attempt which failed is the newest one.
func (l *opQueue) failed(o *op, definite, current bool, cause error, q id.QueueUID, out *outbox) {
	switch {
	case errors.Is(cause, errRefusedForGood):
		l.answer(o, opAnswer{err: fmt.Errorf("queue %s: %w", q, cause)}, out)
	case definite:
		// What this attempt was answered is that it is in no log.
		o.sent = o.sent && !current
	case o.repeat == again:
	default:
		l.answer(o, opAnswer{err: fmt.Errorf("queue %s: %w: %w", q, traffic.ErrUnknownOutcome, cause)}, out)
	}
}

// recall answers a command that its caller does not wait for any more: either it was not
// sent, and never is, or nobody knows.
func (l *opQueue) recall(o *op, q id.QueueUID, out *outbox) {
	err := traffic.ErrUnavailable
	if o.sent || o.uncertain {
		err = traffic.ErrUnknownOutcome
	}
	l.answer(o, opAnswer{err: fmt.Errorf("queue %s: %w: it was called back", q, err)}, out)
}

// remove keeps next where it points to.
func (l *opQueue) remove(o *op) {
	for i, other := range l.ops {
		if other == o {
			l.ops = append(l.ops[:i], l.ops[i+1:]...)
			if i < l.next {
				l.next--
			}
			return
		}
	}
}

// expire answers what has waited beyond its deadline.
func (l *opQueue) expire(now time.Time, q id.QueueUID, out *outbox) {
	for i := 0; i < len(l.ops); {
		o := l.ops[i]
		if o.deadline.IsZero() || now.Before(o.deadline) {
			i++
			continue
		}
		err := traffic.ErrUnavailable
		if o.sent || o.uncertain {
			err = traffic.ErrUnknownOutcome
		}
		l.answer(o, opAnswer{err: fmt.Errorf("queue %s: %w: a majority of its members must be up; see quoratectl queue show", q, err)}, out)
	}
}

// end answers all that is left with err.
func (l *opQueue) end(err error, out *outbox) {
	for len(l.ops) > 0 {
		l.answer(l.ops[0], opAnswer{err: err}, out)
	}
}
