package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Publish is a message to be published. Nothing of it is kept after Broker.Publish has
// returned, except what strings and tables share.
type Publish struct {
	VHost, Exchange string
	RoutingKey      string
	Properties      message.Properties
	Headers         message.Table
	Body            []byte
	Mandatory       bool
	// Producer and ProducerSeq, from 1 and ascending, name the message for queues to
	// recognise a repeat; nil: repeats are not recognised. The id must never change.
	Producer    *ProducerID
	ProducerSeq uint64
	// Delay is when it is to be ready in its queues (DLY-1).
	Delay Delay
	// Chance decides where an exchange takes any of its bindings (EX-14); 0: Publish draws it.
	Chance uint64
	// Token comes back in the Result.
	Token uint64
	// Unit, if not nil, keeps the message until Unit.Commit.
	Unit *Unit
	// Sender is the publisher; nil, a publisher without a name, is enough where clients do not log in.
	Sender *Sender
}

// ProducerID is what a publisher calls itself, the same on all nodes: 16 random bytes.
type ProducerID [16]byte

// ResultKind is what became of a publish as a whole.
type ResultKind uint8

// The kinds of result.
const (
	// Confirmed: every queue routed to has it, or none was and Mandatory was not set.
	Confirmed ResultKind = iota + 1
	// Rejected: at least one queue did not take it (PUB-4).
	Rejected
	// Returned: mandatory, and no queue is routed to (PUB-3).
	Returned
	// Invalid: the message is at fault, see Err; nothing was stored.
	Invalid
)

// Result is the outcome of one publish.
type Result struct {
	Token      uint64
	Kind       ResultKind
	Queues     int         // how many took it
	Rejections []Rejection // with Rejected
	Err        error       // with Invalid: an *Error
}

// RejectionCause is why a queue did not take a message.
type RejectionCause uint8

// The causes.
const (
	// CauseMaxLen: a length limit refused it (LEN-4).
	CauseMaxLen RejectionCause = iota + 1
	// CauseUnavailable: the queue had no leader in time; it will not be stored (PUB-5).
	CauseUnavailable
	// CauseUnknown: the outcome is not known.
	CauseUnknown
	// CauseNoSpace: too few of the queue's nodes have room; it will not be stored.
	CauseNoSpace
)

// Rejection names a queue that did not take a message; none, if this node does not know which
// queues there are.
type Rejection struct {
	Queue  string
	Cause  RejectionCause
	Reason string // with CauseNoSpace: which nodes are short of what, and what helps; without Queue: why this node does not know
}

// publishing is one publish on its way. It is used again for later ones, with its slices
// and the callbacks that its targets were made with.
type publishing struct {
	b       *Broker
	done    func(Result)
	token   uint64
	msg     message.Message
	keys    []string
	routing catalog.Publication
	uids    []id.QueueUID
	later   quorumq.Delay
	targets []*publishTarget
	waiting atomic.Int32
}

// publishTarget is one queue's part of a publish.
type publishTarget struct {
	p        *publishing
	err      error
	answered func(error)
}

func newPublishing(b *Broker) *publishing { return &publishing{b: b} }

// Publish checks, routes and stores one message (PUB-1, PUB-2). It calls done exactly
// once, from any goroutine, possibly before it returns; done must not block. Publish
// waits while a queue's window is full, until ctx ends; messages of one caller reach each
// queue in the order of calls (PUB-6).
func (b *Broker) Publish(ctx context.Context, m *Publish, done func(Result)) {
	p, _ := b.publishes.Get().(*publishing)
	p.done, p.token = done, m.Token
	ttl, err := p.prepare(ctx, m)
	if len(p.uids) == 0 && (err == nil || serving.Negative(err)) { // EX-16
		ttl, err = p.confirm(ctx, m, ttl, err)
	}
	if why, ok := err.(*failure.Error); ok && why.Class == failure.Unavailable { //nolint:errorlint // as prepare and confirm make it
		p.refuse(why)
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
	if n == 0 {
		p.unroutable(m.Mandatory)
		return
	}
	b.clients.Counters.Published.Add(1)
	stored := message.Append(make([]byte, 0, storedSizeHint(&p.msg)), &p.msg)
	nm, asked := newMessage(m, ttl), m.Properties.AskedPriority()
	nm.Delay = p.later
	for len(p.targets) < n {
		p.targets = append(p.targets, newPublishTarget(p))
	}
	p.waiting.Store(int32(n))
	// After the last target was handed over, p may be in use for another publish.
	for i := range n {
		t, uid := p.targets[i], p.uids[i]
		q, err := b.queueHandle(uid)
		if err == nil {
			nm.Priority = q.priorities.Level(asked)
			p.chargeQueue(&q, m, i)
			if m.Unit != nil {
				m.Unit.add(uid, q, gateway.Part{Message: nm, Body: stored, Done: t.answered})
			} else {
				err = q.Enqueue(ctx, nm, stored, t.answered)
			}
		}
		if err != nil {
			t.answer(err)
		}
	}
}

// newMessage is what a queue's machine gets of a message: the only place where a
// publish's TTL and producer reach the machine. Its level is each queue's own matter.
func newMessage(m *Publish, ttlMs int64) quorumq.NewMessage {
	return quorumq.NewMessage{
		Size:  uint32(len(m.Body)), // D-5
		TTLMs: ttlMs,

		Producer:    (*quorumq.ProducerID)(m.Producer),
		ProducerSeq: m.ProducerSeq,
	}
}

// chance decides where an exchange takes any of its bindings (EX-14). A producer's repeat
// has the chance of the first try, so that it goes to the same queue, which knows it.
func (m *Publish) chance() uint64 {
	switch {
	case m.Chance != 0:
		return m.Chance
	case m.Producer == nil:
		return rand.Uint64() //nolint:gosec // spreads messages and hides nothing
	}
	const odd = 0x9e3779b97f4a7c15 // spreads consecutive numbers over all bits
	h := binary.LittleEndian.Uint64(m.Producer[:8]) ^ m.ProducerSeq*odd
	h = (h ^ h>>32) * odd
	return h ^ h>>29
}

// prepare checks the message in the order of PUB-1, fills msg, and routes.
func (p *publishing) prepare(ctx context.Context, m *Publish) (ttlMs int64, err error) {
	if len(m.Body) > p.b.cfg.MaxBodyBytes { // MSG-2
		return 0, p.tooLarge(m)
	}
	p.uids = p.uids[:0]
	v, err := p.b.Serving.View()
	if err != nil {
		return 0, err
	}
	right, err := p.permitPublish(v, m)
	if err != nil {
		return 0, err
	}
	x, err := checkExchange(v, m.VHost, m.Exchange)
	if err != nil {
		return 0, err
	}
	p.msg.Properties, p.msg.Headers = m.Properties, m.Headers
	p.msg.Exchange, p.msg.Body = m.Exchange, m.Body
	if ttlMs, err = p.expiration(); err != nil {
		about := aboutMessage(m)
		about.Problem = failure.ProblemExpiration
		return 0, failure.Translate(err, about)
	}
	if err := p.routingKeys(m); err != nil {
		return 0, aboutKeys(failure.Translate(err, aboutMessage(m)), m.Headers)
	}
	if m.Exchange == "" { // AM-3
		v = p.resolveReplies(ctx, m.VHost, v)
	}
	if err := p.permitKeys(m, x, right.Topic); err != nil {
		return 0, err
	}
	if err := permitUserID(m, &right); err != nil {
		return 0, err
	}
	if !withinLimits(&p.msg) {
		if err := message.CheckLimits(&p.msg, p.b.cfg.MaxBodyBytes); err != nil {
			return 0, failure.Translate(err, aboutMessage(m))
		}
	}
	if p.later, err = p.delay(v, x, m); err != nil {
		return 0, err
	}
	headers := p.msg.Headers
	if h, known := v.VHost(m.VHost); known && h.ImportDeaths && message.ImportDeaths(&p.msg) { // G-11
		headers = p.msg.Headers.Merged(message.DeathHeaders(&p.msg))
	}
	p.routing = catalog.Publication{
		Keys: p.msg.RoutingKeys, Headers: headers, Properties: &p.msg.Properties,
		Chance: m.chance(), Local: p.b.leads, Alternate: p.b.alternate,
	}
	p.uids, err = v.Route(m.VHost, m.Exchange, &p.routing, p.uids[:0])
	return ttlMs, failure.Translate(err, aboutMessage(m))
}

// newPublishTarget makes the callback once: a method value for each publish would be an allocation.
func newPublishTarget(p *publishing) *publishTarget {
	t := &publishTarget{p: p}
	t.answered = t.answer
	return t
}

// answer takes one queue's answer; the last one finishes the publish.
func (t *publishTarget) answer(err error) {
	t.err = err
	if p := t.p; p.waiting.Add(-1) == 0 {
		p.answered()
	}
}

// confirm takes what was found for a message that has no queue, an error or none, and looks
// again if the view was too old to decide. What it could not find out is Unavailable.
func (p *publishing) confirm(ctx context.Context, m *Publish, ttlMs int64, found error) (int64, error) {
	if p.b.catalog.Fresh() {
		return ttlMs, found
	}
	if err := p.b.catalog.AwaitFresh(ctx); err != nil {
		return 0, serving.ErrStale(err)
	}
	return p.prepare(ctx, m)
}

// refuse ends a publish that this node cannot decide about: nothing is stored.
func (p *publishing) refuse(why *failure.Error) {
	p.b.clients.Counters.Rejected.Add(1)
	p.b.clients.Counters.Undecidable.Add(1)
	p.finish(Result{Kind: Rejected, Rejections: []Rejection{{Cause: CauseUnavailable, Reason: why.Reason}}})
}

// unroutable ends a publish that is routed to no queue (PUB-3).
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

// answered sums up the queues' answers.
func (p *publishing) answered() {
	r := Result{Kind: Confirmed}
	for i := range p.uids {
		err := p.targets[i].err
		p.targets[i].err = nil
		if err == nil {
			r.Queues++
			continue
		}
		// a queue that is deleted meanwhile counts as having taken the message.
		if errors.Is(err, traffic.ErrNoSuchQueue) {
			continue
		}
		r.Kind = Rejected
		x := Rejection{Queue: p.b.queueName(p.uids[i]), Cause: rejectionCause(err)}
		if x.Cause == CauseNoSpace {
			x.Reason = err.Error()
		}
		r.Rejections = append(r.Rejections, x)
	}
	if r.Kind == Confirmed {
		p.b.clients.Counters.Confirmed.Add(1)
	} else {
		p.b.clients.Counters.Rejected.Add(1)
	}
	p.finish(r)
}

// rejectionCause returns the cause of an error of a queue that has not taken a message.
func rejectionCause(err error) RejectionCause {
	switch {
	case errors.Is(err, traffic.ErrRefused):
		return CauseMaxLen
	case errors.Is(err, traffic.ErrUnknownOutcome):
		return CauseUnknown
	case errors.Is(err, disk.ErrNoSpace):
		return CauseNoSpace
	}
	// All others were not, and will not be, stored: no leader, node stopping, or the
	// caller went away while the window was full.
	return CauseUnavailable
}

// queueName returns a queue's name for a client; of one that was deleted meanwhile the UID.
func (b *Broker) queueName(uid id.QueueUID) string {
	if q, ok := b.view().QueueByUID(uid); ok {
		return q.Name
	}
	return uid.String()
}

// finish hands the result over.
func (p *publishing) finish(r Result) {
	done := p.done
	r.Token = p.token
	p.release()
	done(r)
}

// release gives p back for the next publish.
func (p *publishing) release() {
	p.done = nil
	clear(p.keys)
	p.msg, p.routing = message.Message{}, catalog.Publication{}
	p.b.publishes.Put(p)
}
