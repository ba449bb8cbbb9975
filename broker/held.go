package broker

import (
	"context"

	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/catalog"
)

// Held reports whether the next message into a vhost has to wait, and for how long before it asks again. It
// belongs to the goroutine that publishes.
func (s *Sender) Held(vhost string) (limits.Hold, bool) { return s.gates.Held(s.who, vhost) }

// AwaitQuotas waits until the next message into a vhost may be published. It fails with ResourceExhausted
// shortly before ctx's deadline, and as soon as giveUp returns true, which is called four times a second; it may be nil.
// It belongs to the goroutine that publishes.
func (s *Sender) AwaitQuotas(ctx context.Context, vhost string, giveUp func() bool) error {
	return s.gates.Await(ctx, s.who, vhost, giveUp)
}

// AwaitQuotas waits until a single message may be published, as Sender.AwaitQuotas does; it looks
// also at the queues that the message is for.
func (b *Broker) AwaitQuotas(ctx context.Context, m *Publish, giveUp func() bool) error {
	if err := m.Sender.AwaitQuotas(ctx, m.VHost, giveUp); err != nil || !b.Limits.MayBoundQueues() {
		return err
	}
	p := newPublishing(b)
	_, err := p.prepare(ctx, m)
	if v := b.view(); err == nil { // else Publish will fail with the same
		for _, uid := range p.uids {
			m.Sender.gates.NoteQueue(v, uid)
		}
	}
	return m.Sender.AwaitQuotas(ctx, m.VHost, giveUp)
}

// charge counts a message for its sender and vhost; bytes are those of its body.
func (s *Sender) charge(v *catalog.View, vhost string, bytes int) {
	s.gates.Charge(v, s.who, vhost, bytes)
}

// chargeQueue counts a message for one of its queues, unless nothing bounds what is published into that.
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
