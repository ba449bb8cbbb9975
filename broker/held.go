package broker

import (
	"context"

	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/catalog"
)

// Held reports whether the next message into a vhost has to wait, and for how long before it asks again. It
// belongs to the goroutine that publishes.
func (s *Sender) Held(vhost string) (limits.Hold, bool) { return s.gates.Held(s.who, vhost) }

// NoteQueues has the sender of a message wait for the queues that the message is for (VH-15, VH-17): one that has published
// nothing yet is no way past them. It routes the message, of whose body it asks the length alone, and draws its Chance, so that
// Publish takes the same queues. It may wait for the catalog as Publish does. It notes nothing for what Publish will refuse.
func (b *Broker) NoteQueues(ctx context.Context, m *Publish) {
	if !b.Limits.MayBoundQueues() {
		return
	}
	m.Chance = m.chance()
	p, _ := b.publishes.Get().(*publishing)
	defer p.release()
	if _, err := p.prepare(ctx, m); err != nil {
		return
	}
	v := b.view()
	for _, uid := range p.uids {
		m.Sender.gates.NoteQueue(v, uid)
	}
}

// AwaitQuotas waits until a message may be published: for its user, its vhost, and the queues that it is for. It fails
// with ResourceExhausted shortly before ctx's deadline, and as soon as giveUp returns true, which is called four times a
// second; it may be nil. It belongs to the goroutine that publishes.
func (b *Broker) AwaitQuotas(ctx context.Context, m *Publish, giveUp func() bool) error {
	s := m.Sender
	if err := s.gates.Await(ctx, s.who, m.VHost, giveUp); err != nil || !b.Limits.MayBoundQueues() {
		return err
	}
	b.NoteQueues(ctx, m)
	return s.gates.Await(ctx, s.who, m.VHost, giveUp)
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
