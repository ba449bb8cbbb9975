package broker

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/catalog"
)

// maxQueueGates bounds the queues that a sender waits for at a time.
const maxQueueGates = 64

// senderGates are the gates that a sender's messages pass: looked up once for each state of the catalog.
type senderGates struct {
	known    bool
	index    uint64 // of the view
	vhost    string
	user, in *gate   // nil: none
	queues   []*gate // of the messages since it was last held back by none
}

// look finds the gates for a vhost. It allocates only where there are limits.
func (s *Sender) look(v *catalog.View, vhost string) *senderGates {
	g := &s.gates
	if g.known && g.index == v.Index() && g.vhost == vhost {
		return g
	}
	q := s.b.quotas
	if g.user = nil; s.who != nil {
		g.user = q.user(v, s.who.User())
	}
	g.in = nil
	if s.b.mayEnter(v, s.who, vhost) { // else Publish refuses, and nothing is told of the vhost
		g.in = q.vhost(v, vhost)
	}
	if len(g.queues) > 0 {
		queues := g.queues
		g.queues = g.queues[:0]
		for _, x := range queues {
			if now := q.queue(v, x.of.Queue); now != nil {
				g.queues = append(g.queues, now)
			}
		}
	}
	g.known, g.index, g.vhost = true, v.Index(), vhost
	return g
}

// note has the sender's next message wait for the gate of a queue.
func (g *senderGates) note(queue *gate) {
	if len(g.queues) < maxQueueGates && !slices.Contains(g.queues, queue) {
		g.queues = append(g.queues, queue)
	}
}

// charge counts a message for its sender and vhost.
func (s *Sender) charge(v *catalog.View, vhost string, bytes int) {
	g := s.look(v, vhost)
	if g.user == nil && g.in == nil {
		return
	}
	now := s.b.quotas.now()
	if g.user != nil {
		g.user.charge(now, bytes)
	}
	if g.in != nil {
		g.in.charge(now, bytes)
	}
}

// chargeQueue counts a message for a queue.
func (b *Broker) chargeQueue(q *handle, m *Publish, p *publishing, i int) {
	if !q.rated && !b.quotas.byPolicy.Load() {
		return
	}
	v := b.view()
	g := b.quotas.queue(v, p.uids[i])
	if g == nil {
		return
	}
	g.charge(b.quotas.now(), len(m.Body))
	if m.Sender != nil {
		m.Sender.gates.note(g)
	}
}

// Hold is why a sender's next message has to wait.
type Hold struct {
	// For is how long to wait before looking again; 250 ms at most.
	For time.Duration
	// Stored tells that a vhost holds too much, which takes longer than rates do.
	Stored bool

	gate  *gate
	which int
}

// Held tells whether the next message into a vhost has to wait, and how long before one looks again. It
// belongs to the goroutine that publishes.
func (s *Sender) Held(vhost string) (h Hold, held bool) {
	v := s.b.view()
	g := s.look(v, vhost)
	if g.user == nil && g.in == nil && len(g.queues) == 0 {
		return h, false
	}
	now := s.b.quotas.now()
	ask := func(x *gate) {
		if x == nil {
			return
		}
		if d, which := x.wait(now); d > h.For {
			h = Hold{For: d, Stored: which == storedQuota, gate: x, which: which}
		}
	}
	ask(g.user)
	ask(g.in)
	for _, x := range g.queues {
		ask(x)
	}
	if h.For == 0 {
		g.queues = g.queues[:0]
		return h, false
	}
	return h, true
}

// Waits counts the time of a publisher that waits: it is called when a wait begins, and ended when it has ended.
func (h Hold) Waits() (ended func()) {
	f, began := &h.gate.q.figures, time.Now()
	f.waiting.Add(1)
	return func() {
		f.waiting.Add(-1)
		f.held[h.gate.scope()][h.which].Add(int64(time.Since(began)))
	}
}

// Error says which quota holds the sender back, and what helps.
func (h Hold) Error() *Error {
	e := &Error{
		Class: ResourceExhausted, Kind: scopeName(h.gate.scope()), Arg: quotaName(h.which), RetryAfter: retryAfter,
		Reason: "is reached: publish less at a time, or have the limit raised",
	}
	h.gate.mu.Lock()
	limit := h.gate.limits.stored
	if h.which < rates {
		limit = h.gate.limits.rates[h.which]
	}
	h.gate.mu.Unlock()
	e.Value = strconv.FormatInt(limit, 10)
	if h.which == storedQuota {
		e.Reason = "is reached: consume or purge messages, or have the limit raised"
	}
	switch of := h.gate.of; {
	case of.User != "":
		e.Name = of.User
	case of.VHost != "":
		e.Name, e.VHost = of.VHost, of.VHost
	default:
		if v := h.gate.q.b.view(); v != nil {
			if r, ok := v.QueueByUID(of.Queue); ok {
				e.Name, e.VHost = r.Name, r.VHost
			}
		}
	}
	return e
}

// beforeDeadline is how long before its caller's deadline a wait is given up, so that the caller is told why.
const beforeDeadline = 50 * time.Millisecond

// AwaitQuotas waits until the next message into a vhost may be published. Shortly before ctx's deadline it
// fails with ResourceExhausted, and so it does as soon as giveUp says so, which is asked four times a second; nil: nobody
// is. It belongs to the goroutine that publishes.
func (s *Sender) AwaitQuotas(ctx context.Context, vhost string, giveUp func() bool) error {
	for {
		h, held := s.Held(vhost)
		if !held {
			return nil
		}
		if giveUp != nil && giveUp() {
			return h.Error()
		}
		wait := h.For
		if at, bounded := ctx.Deadline(); bounded {
			left := time.Until(at) - beforeDeadline
			if left <= 0 {
				return h.Error()
			}
			wait = min(wait, left)
		}
		if s.timer == nil {
			s.timer = time.NewTimer(wait)
		} else {
			s.timer.Reset(wait)
		}
		ended := h.Waits()
		select {
		case <-s.timer.C:
		case <-ctx.Done():
		}
		if ended(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// VHostFull tells whether a vhost holds more than its limit, as far as this node knows (VH-14).
func (b *Broker) VHostFull(vhost string) bool {
	v := b.view()
	g := b.quotas.vhost(v, vhost)
	if g == nil {
		return false
	}
	d, which := g.wait(b.quotas.now())
	return d > 0 && which == storedQuota
}
