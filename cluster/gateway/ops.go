package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

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
