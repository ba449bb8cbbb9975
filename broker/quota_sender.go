package broker

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// maxQueueGates bounds the queues that a sender waits for at a time.
const maxQueueGates = 64

// senderGates are the gates that a sender's messages pass: looked up once for each state of the catalog.
type senderGates struct {
	known    bool
	index    uint64 // of the view
	vhost    string
	user, in *gate // nil: none
	// queues and declarers are those of the messages since it was last held back by none. At a declarer what its
	// queues hold counts alone: its rates are its own (VH-17).
	queues, declarers []*gate
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
	if s.b.Permissions.MayEnter(v, s.who, vhost) { // else Publish refuses, and nothing is told of the vhost
		g.in = q.vhost(v, vhost)
	}
	g.queues = again(g.queues, func(x *gate) *gate { return q.queue(v, x.of.Queue).gate })
	g.declarers = again(g.declarers, func(x *gate) *gate { return q.declarer(v, x.of.User) })
	g.known, g.index, g.vhost = true, v.Index(), vhost
	return g
}

// again looks gates up anew, in place.
func again(gates []*gate, look func(*gate) *gate) []*gate {
	kept := gates[:0]
	for _, x := range gates {
		if now := look(x); now != nil {
			kept = append(kept, now)
		}
	}
	return kept
}

// note has the sender's next message wait for the gates of a queue.
func (g *senderGates) note(of queueGate) {
	g.queues, g.declarers = with(g.queues, of.gate), with(g.declarers, of.declarer)
}

func with(gates []*gate, g *gate) []*gate {
	if g == nil || len(gates) >= maxQueueGates || slices.Contains(gates, g) {
		return gates
	}
	return append(gates, g)
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
	if !q.rated && !b.quotas.byPolicy.Load() && !b.quotas.byDeclarer.Load() {
		return
	}
	of := b.quotas.queue(b.view(), p.uids[i])
	if of.gate != nil {
		of.gate.charge(b.quotas.now(), len(m.Body))
	}
	if m.Sender != nil {
		m.Sender.gates.note(of)
	}
}

// Hold is why a sender's next message has to wait.
type Hold struct {
	// For is how long to wait before looking again; 250 ms at most.
	For time.Duration
	// Stored reports that a vhost, or a user's queues, hold too much, which takes longer than rates do.
	Stored bool

	gate  *gate
	which int
}

// Held reports whether the next message into a vhost has to wait, and how long before one looks again. It
// belongs to the goroutine that publishes.
func (s *Sender) Held(vhost string) (h Hold, held bool) {
	v := s.b.view()
	g := s.look(v, vhost)
	if g.user == nil && g.in == nil && len(g.queues) == 0 && len(g.declarers) == 0 {
		return h, false
	}
	now := s.b.quotas.now()
	ask := func(x *gate, storedOnly bool) {
		if x == nil {
			return
		}
		if d, which := x.wait(now, storedOnly); d > h.For {
			h = Hold{For: d, Stored: which == storedQuota, gate: x, which: which}
		}
	}
	ask(g.user, false)
	ask(g.in, false)
	for _, x := range g.queues {
		ask(x, false)
	}
	for _, x := range g.declarers {
		ask(x, true)
	}
	if h.For == 0 {
		g.queues, g.declarers = g.queues[:0], g.declarers[:0]
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
func (h Hold) Error() *failure.Error {
	e := &failure.Error{
		Class: failure.ResourceExhausted, Kind: connections.ScopeName(h.gate.scope()), Arg: quotaName(h.which), RetryAfter: failure.RetryAfter,
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

// Full reports whether what held a sender back because too much is stored still does, as far as this node knows
// (VH-16, VH-17); false for the zero Hold. It may be called from any goroutine.
func (h Hold) Full() bool {
	if h.gate == nil {
		return false
	}
	q := h.gate.q
	g := q.of(q.b.view(), h.gate.of)
	if g == nil {
		return false
	}
	d, _ := g.wait(q.now(), true)
	return d > 0
}
