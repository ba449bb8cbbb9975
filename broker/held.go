package broker

import (
	"context"
)

// NoteQueues makes the sender of a message wait for the queues that the message is for (VH-15, VH-17). Otherwise a
// sender that has published nothing yet would bypass them. NoteQueues routes the message and draws its Chance, so that
// Publish takes the same queues; of the body it needs only the length. It may wait for the catalog, as Publish does. It
// does nothing for a message that Publish will refuse.
func (b *Broker) NoteQueues(ctx context.Context, m *Publish) {
	if !b.Limits.MayBoundQueues() {
		return
	}
	m.Chance = m.chance()
	p := b.newPublishing()
	defer p.release()
	err := p.prepare(ctx, m)
	p.restore(m)
	if err != nil {
		return
	}
	v := b.view()
	for _, uid := range p.uids {
		m.Sender.gates.NoteQueue(v, uid)
	}
}

// AwaitQuotas waits until the quotas let a message through: those of its user, of its vhost, and of the queues that it
// is for. It fails with ResourceExhausted shortly before ctx's deadline, and as soon as giveUp returns true. giveUp is
// called four times a second; it may be nil. Only the goroutine that publishes may call AwaitQuotas.
func (b *Broker) AwaitQuotas(ctx context.Context, m *Publish, giveUp func() bool) error {
	s := m.Sender
	if err := s.gates.Await(ctx, s.who, m.VHost, giveUp); err != nil || !b.Limits.MayBoundQueues() {
		return err
	}
	b.NoteQueues(ctx, m)
	return s.gates.Await(ctx, s.who, m.VHost, giveUp)
}
