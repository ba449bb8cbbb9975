package gateway

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// unheard returns the op of a command whose answer nobody needs.
func unheard(c quorumq.Command) *op {
	return &op{header: quorumq.AppendCommand(nil, c), done: func(opResult) {}}
}

func (l *opQueue) len() int { return len(l.ops) }

func (l *opQueue) add(ops []*op) { l.ops = append(l.ops, ops...) }

// hasUnsent reports whether commands wait to be sent.
func (l *opQueue) hasUnsent() bool { return l.next < len(l.ops) }

// rewind marks all commands that were sent as uncertain, because the last leader may have committed
// them. Those that must never be repeated stay sent.
func (l *opQueue) rewind() {
	l.next = 0
	for _, o := range l.ops {
		if o.repeat == never {
			continue
		}
		o.uncertain = o.uncertain || o.sent
		o.sent = false
	}
}

// answer answers a command once. Further calls do nothing, because a late answer of a former leader
// may follow.
func (l *opQueue) answer(o *op, a opResult, out *outbox) {
	if o.closed {
		return
	}
	o.closed = true
	l.remove(o)
	out.calls = append(out.calls, func() { o.done(a) })
}

// failed removes an unanswered command if it must not be sent again. current means that the newest attempt has
// failed.
func (l *opQueue) failed(o *op, definite, current bool, cause error, q id.QueueUID, out *outbox) {
	switch {
	case errors.Is(cause, errRefusedForGood):
		l.answer(o, opResult{err: fmt.Errorf("queue %s: %w", q, cause)}, out)
	case definite && o.repeat == never:
		l.unsend(o)
	case definite:
		// The answer to this attempt says that the command is in no log.
		o.sent = o.sent && !current
	case o.repeat == again:
	default:
		l.answer(o, opResult{err: fmt.Errorf("queue %s: %w: %w", q, traffic.ErrUnknownOutcome, cause)}, out)
	}
}

// unsend has a command sent again that is certainly in no log.
func (l *opQueue) unsend(o *op) {
	if i := slices.Index(l.ops, o); i >= 0 {
		o.sent = false
		l.next = min(l.next, i)
	}
}

// recall answers a command whose caller no longer waits for it. If it was not sent, it never will
// be; otherwise its outcome is unknown. One that must never be repeated keeps waiting for its answer.
func (l *opQueue) recall(o *op, q id.QueueUID, out *outbox) {
	if o.repeat == never && o.sent {
		return
	}
	err := traffic.ErrUnavailable
	if o.sent || o.uncertain {
		err = traffic.ErrUnknownOutcome
	}
	l.answer(o, opResult{err: fmt.Errorf("queue %s: %w: it was called back", q, err)}, out)
}

// remove removes a command, usually the first one. next still refers to the same command afterwards.
func (l *opQueue) remove(o *op) {
	i := slices.Index(l.ops, o)
	switch {
	case i < 0:
		return
	case i == 0 && len(l.ops) > 1: // without moving all others
		l.ops[0] = nil
		l.ops = l.ops[1:]
	default:
		l.ops = slices.Delete(l.ops, i, i+1)
	}
	if i < l.next {
		l.next--
	}
}

// expire answers commands whose deadline has passed.
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
		l.answer(o, opResult{err: fmt.Errorf("queue %s: %w: a majority of its members must be up; see quoratectl queue show", q, err)}, out)
	}
}

// end answers all remaining commands. why returns the error of one that may have reached the queue's
// log, or of one that is in no log.
func (l *opQueue) end(why func(possible bool) error, out *outbox) {
	for len(l.ops) > 0 {
		o := l.ops[0]
		l.answer(o, opResult{err: why(o.sent || o.uncertain)}, out)
	}
}
