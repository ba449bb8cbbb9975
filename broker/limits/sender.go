package limits

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// maxQueueGates limits how many queues a sender waits for at the same time.
const maxQueueGates = 64

// Sender waits at the gates that the messages of one publisher pass. It looks the gates up once for each state of the
// catalog. Only one goroutine at a time may use it.
type Sender struct {
	l        *Limits
	known    bool
	index    uint64 // of the view
	vhost    string
	user, in *gate // nil: none
	// queues and declarers are the gates of the queues that its messages went to since it was last free to go on. At a
	// declarer's gate only the stored bytes count, because its rates are for its own publishing (VH-17).
	queues, declarers []*gate
	timer             *time.Timer // of Await, kept for the next wait
}

// NewSender returns a Sender for one publisher.
func (l *Limits) NewSender() Sender { return Sender{l: l} }

// look finds the gates of the user who, which may be nil, and of a vhost. It allocates only if there are limits.
func (s *Sender) look(v *catalog.View, who *identity.Identity, vhost string) {
	if s.known && s.index == v.Index() && s.vhost == vhost {
		return
	}
	if s.user = nil; who != nil {
		s.user = s.l.user(v, who.User())
	}
	s.in = nil
	if s.l.permissions.MayEnter(v, who, vhost) { // otherwise the publish will be refused, and must reveal nothing about the vhost
		s.in = s.l.vhost(v, vhost)
	}
	s.queues = renewed(s.queues, func(x *gate) *gate { return s.l.queue(v, x.of.Queue).gate })
	s.declarers = renewed(s.declarers, func(x *gate) *gate { return s.l.declarer(v, x.of.User) })
	s.known, s.index, s.vhost = true, v.Index(), vhost
}

// renewed looks gates up again, in place, and drops those that no longer have limits.
func renewed(gates []*gate, look func(*gate) *gate) []*gate {
	kept := gates[:0]
	for _, x := range gates {
		if now := look(x); now != nil {
			kept = append(kept, now)
		}
	}
	return kept
}

// NoteQueue makes the sender's next message wait for a queue.
func (s *Sender) NoteQueue(v *catalog.View, uid id.QueueUID) { s.note(s.l.queue(v, uid)) }

// note makes the sender's next message wait for the gates of a queue.
func (s *Sender) note(of queueGates) {
	s.queues, s.declarers = with(s.queues, of.gate), with(s.declarers, of.declarer)
}

// with adds a gate unless the list has it. Beyond maxQueueGates it adds none; messages do not wait for those.
func with(gates []*gate, g *gate) []*gate {
	if g == nil || len(gates) >= maxQueueGates || slices.Contains(gates, g) {
		return gates
	}
	return append(gates, g)
}

// Charge counts a message of the user who, which may be nil, into a vhost; bytes is the size of the body.
func (s *Sender) Charge(v *catalog.View, who *identity.Identity, vhost string, bytes int) {
	s.look(v, who, vhost)
	if s.user == nil && s.in == nil {
		return
	}
	now := s.l.now()
	if s.user != nil {
		s.user.charge(now, bytes)
	}
	if s.in != nil {
		s.in.charge(now, bytes)
	}
}

// ChargeQueue counts a message for a queue, and makes the next message of its sender wait for the queue; s may be nil.
func (l *Limits) ChargeQueue(uid id.QueueUID, bytes int, s *Sender) {
	of := l.queue(l.view(), uid)
	if of.gate != nil {
		of.gate.charge(l.now(), bytes)
	}
	if s != nil {
		s.note(of)
	}
}

// Held reports whether the next message of the user who, which may be nil, into a vhost must wait. The Hold has how
// long the caller waits before it asks again.
func (s *Sender) Held(who *identity.Identity, vhost string) (h Hold, held bool) {
	s.look(s.l.view(), who, vhost)
	if s.user == nil && s.in == nil && len(s.queues) == 0 && len(s.declarers) == 0 {
		return h, false
	}
	now := s.l.now()
	ask := func(x *gate, storedOnly bool) {
		if x == nil {
			return
		}
		d, which := x.wait(now, storedOnly)
		if stored := which == storedQuota; d > h.For || d > 0 && stored && !h.Stored { // clients see which limit for stored bytes is reached
			h = Hold{For: d, Stored: which == storedQuota, l: s.l, gate: x, which: which}
		}
	}
	ask(s.user, false)
	ask(s.in, false)
	for _, x := range s.queues {
		ask(x, false)
	}
	for _, x := range s.declarers {
		ask(x, true)
	}
	if h.For == 0 {
		s.queues, s.declarers = s.queues[:0], s.declarers[:0]
		return h, false
	}
	return h, true
}

// beforeDeadline is how long before the caller's deadline a wait ends, so that the error with the quota's name still
// reaches the caller.
const beforeDeadline = 50 * time.Millisecond

// Await waits until the next message of the user who into a vhost may be published. It fails with ResourceExhausted
// shortly before ctx's deadline, and as soon as giveUp returns true. giveUp is called four times a second; it may be
// nil.
func (s *Sender) Await(ctx context.Context, who *identity.Identity, vhost string, giveUp func() bool) error {
	for {
		h, held := s.Held(who, vhost)
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
