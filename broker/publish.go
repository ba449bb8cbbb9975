package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// publishing is one publish in progress. To save allocations it is reused for later publishes, with its slices and the
// callbacks of its targets.
type publishing struct {
	routed
	done    func(Result)
	token   uint64
	targets []*publishTarget
	waiting atomic.Int32
	span    *tracing.Publish // nil: the message is not traced
}

// publishTarget is one queue's part of a publish.
type publishTarget struct {
	p        *publishing
	err      error
	answered func(error)
}

// newPublishing returns a publishing that is not in use, a used one if there is one.
func (b *Broker) newPublishing() *publishing {
	if p, is := b.publishes.Get().(*publishing); is {
		return p
	}
	return &publishing{routed: routed{b: b}}
}

// Publish checks, routes and stores one message (PUB-1, PUB-2). It calls done exactly once, from any goroutine,
// possibly before it returns; done must not block. While the window of a queue is full, Publish waits, but no longer
// than ctx. Messages of one caller reach each queue in the order of the calls (PUB-6); see Result.NotTaken.
func (b *Broker) Publish(ctx context.Context, m *Publish, done func(Result)) {
	p := b.newPublishing()
	p.done, p.token = done, m.Token
	if b.tracer != nil {
		p.span = b.tracePublish(m)
	}
	err := p.prepare(ctx, m)
	if len(p.uids) == 0 && (err == nil || serving.Negative(err)) { // EX-16
		err = p.confirm(ctx, m, err)
	}
	var stored []byte
	if err == nil && len(p.uids) > 0 {
		stored = storedForm(&m.Message)
	}
	p.restore(m)
	if why, ok := err.(*failure.Error); ok && why.Class == failure.Unavailable { //nolint:errorlint // as prepare and confirm make it
		p.refuse(why, m.Producer != nil)
		return
	}
	if err != nil {
		b.clients.Counters.Invalid.Add(1)
		p.finish(Result{Kind: Invalid, Err: err})
		return
	}
	if v := b.view(); m.Sender != nil && v != nil {
		m.Sender.charge(v, m.VHost, len(m.Body))
	}
	n := len(p.uids)
	b.countExchange(m.Sender, p.exchange, n)
	if n == 0 {
		p.unroutable(m.Mandatory)
		return
	}
	b.clients.Counters.Published.Add(1)
	nm, asked := newMessage(m, p.ttlMs), m.AskedPriority()
	nm.Delay = p.later
	for len(p.targets) < n {
		p.targets = append(p.targets, newPublishTarget(p))
	}
	p.waiting.Store(int32(n))
	// As soon as the last target has been handed over, p may be in use for another publish.
	for i := range n {
		t, uid := p.targets[i], p.uids[i]
		answered := t.answered
		if p.span != nil {
			answered = p.span.Commit(b.queueName(uid), answered)
		}
		q, err := b.handles.of(uid)
		if err == nil {
			nm.Priority = q.priorities.Level(asked)
			p.chargeQueue(&q, m, i)
			if m.Unit != nil {
				m.Unit.add(uid, q, gateway.Part{Message: nm, Body: stored, Done: answered})
			} else {
				err = q.Enqueue(ctx, nm, stored, answered)
			}
		}
		if err != nil {
			answered(p.notTaken(uid, err, m))
		}
	}
}

// notTaken returns what is certain about a message that a queue's window did not take. A named producer may have
// published it before, through another node, so only the queue itself can say that it is not stored (PUB-6). The
// publish ends at once, since its caller must know before the next one; the answers of other queues change nothing.
// The target is still to be answered, so that no other goroutine ends the publish meanwhile.
func (p *publishing) notTaken(uid id.QueueUID, err error, m *Publish) error {
	if m.Producer == nil || errors.Is(err, traffic.ErrNoSuchQueue) {
		return err
	}
	if done := p.done; done != nil {
		p.done = nil
		done(Result{Token: p.token, Kind: Rejected, NotTaken: true, Rejections: []Rejection{
			{Queue: p.b.queueName(uid), Cause: CauseUnknown, Reason: err.Error()},
		}})
	}
	return fmt.Errorf("%w: %w", traffic.ErrUnknownOutcome, err)
}

// newMessage returns what a queue's machine gets of a message. A publish's TTL and producer reach the machine only
// through here. The priority level is missing, because each queue has its own levels.
func newMessage(m *Publish, ttlMs int64) quorumq.NewMessage {
	return quorumq.NewMessage{
		Size:  uint32(len(m.Body)), // D-5
		TTLMs: ttlMs,

		Producer:    (*quorumq.ProducerID)(m.Producer),
		ProducerSeq: m.ProducerSeq,
	}
}

// newPublishTarget creates the callback once: a method value for each publish would be an allocation.
func newPublishTarget(p *publishing) *publishTarget {
	t := &publishTarget{p: p}
	t.answered = t.answer
	return t
}

// answer records one queue's answer. The last answer finishes the publish.
func (t *publishTarget) answer(err error) {
	t.err = err
	if p := t.p; p.waiting.Add(-1) == 0 {
		p.answered()
	}
}

// refuse ends a publish that this node cannot route with certainty (EX-16). It stores nothing, but a named
// producer may have published the message through another node before, so that the outcome is unknown (PUB-6).
func (p *publishing) refuse(why *failure.Error, named bool) {
	cause := CauseUnavailable
	if named {
		cause = CauseUnknown
	}
	p.b.clients.Counters.Rejected.Add(1)
	p.b.clients.Counters.Undecidable.Add(1)
	p.finish(Result{Kind: Rejected, NotTaken: named, Rejections: []Rejection{{Cause: cause, Reason: why.Reason}}})
}

// unroutable ends a publish that was routed to no queue (PUB-3).
func (p *publishing) unroutable(mandatory bool) {
	r := Result{Kind: Confirmed}
	if mandatory {
		r.Kind = Returned
		p.b.clients.Counters.UnroutableReturned.Add(1)
	} else {
		p.b.clients.Counters.UnroutableDropped.Add(1)
	}
	p.finish(r)
}

// answered derives the result from the queues' answers.
func (p *publishing) answered() {
	r := Result{Kind: Confirmed}
	for i := range p.uids {
		err := p.targets[i].err
		p.targets[i].err = nil
		if err == nil {
			r.Queues++
			continue
		}
		// a queue that was deleted meanwhile counts as if it had taken the message.
		if errors.Is(err, traffic.ErrNoSuchQueue) {
			continue
		}
		r.Kind = Rejected
		x := Rejection{Queue: p.b.queueName(p.uids[i]), Cause: rejectionCause(err)}
		if x.Cause == CauseNoSpace {
			x.Reason = err.Error()
		}
		p.b.countRefusal(x.Cause)
		r.Rejections = append(r.Rejections, x)
	}
	if r.Kind == Confirmed {
		p.b.clients.Counters.Confirmed.Add(1)
	} else {
		p.b.clients.Counters.Rejected.Add(1)
	}
	p.finish(r)
}

// rejectionCause derives the cause from the error of a queue that did not take a message.
func rejectionCause(err error) RejectionCause {
	switch {
	case errors.Is(err, traffic.ErrDrainDeleting):
		return CauseUnavailable
	case errors.Is(err, traffic.ErrRefused):
		return CauseMaxLen
	case errors.Is(err, traffic.ErrUnknownOutcome):
		return CauseUnknown
	case errors.Is(err, disk.ErrNoSpace):
		return CauseNoSpace
	}
	// With all other errors the message was not stored and will not be: the queue has no leader, the node stops, or the
	// caller went away while the window was full.
	return CauseUnavailable
}

// countRefusal counts a message that a queue did not take.
func (b *Broker) countRefusal(c RejectionCause) {
	r := &b.clients.Counters.Refusals
	switch c {
	case CauseMaxLen:
		r.MaxLen.Add(1)
	case CauseNoSpace:
		r.NoSpace.Add(1)
	case CauseUnavailable:
		r.Unavailable.Add(1)
	case CauseUnknown:
		r.Unknown.Add(1)
	}
}

// finish reports the result, unless notTaken has. It releases p first; done may publish again and reuse it.
func (p *publishing) finish(r Result) {
	done := p.done
	r.Token = p.token
	if p.span != nil {
		traceResult(p.span, &r)
	}
	p.release()
	if done != nil {
		done(r)
	}
}

// release makes p available for another publish.
func (p *publishing) release() {
	p.done, p.span = nil, nil
	p.routed.release()
	p.b.publishes.Put(p)
}

// queueName returns the name of a queue for a client, or the UID if the queue was deleted meanwhile.
func (b *Broker) queueName(uid id.QueueUID) string {
	if q, ok := b.view().QueueByUID(uid); ok {
		return q.Name
	}
	return uid.String()
}

// chargeQueue counts a message towards the limits of one of its queues, unless nothing limits publishing to that queue.
func (p *publishing) chargeQueue(q *handle, m *Publish, i int) {
	if !q.rated && !p.b.Limits.BoundsQueues() {
		return
	}
	var s *limits.Sender
	if m.Sender != nil {
		s = &m.Sender.gates
	}
	p.b.Limits.ChargeQueue(p.uids[i], len(m.Body), s)
}
