package broker

import (
	"context"
)

// NoteQueues has the sender of a message wait for the queues that the message is for (VH-15, VH-17): one that has published
// nothing yet is no way past them. It routes the message, of whose body it asks the length alone, and draws its Chance, so that
// Publish takes the same queues. It may wait for the catalog as Publish does. It notes nothing for what Publish will refuse.
func (b *Broker) NoteQueues(ctx context.Context, m *Publish) {
	if !b.Limits.MayBoundQueues() {
		return
	}
	m.Chance = m.chance()
	p := b.newPublishing()
	defer p.release()
	if err := p.prepare(ctx, m); err != nil {
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
