package workload

import "context"

// base is what most workloads are: players, and queues that they empty.
type base struct {
	*World
	players players
	// drains are the queues in the order in which they become empty: what is dead-lettered or moved
	// flows from earlier ones to later ones. The leader of the first one is hit.
	drains []string
}

// Leading implements Workload.
func (b *base) Leading() string { return b.drains[0] }

// Publish implements Workload.
func (b *base) Publish(ctx, publishing context.Context) error {
	return b.players.play(ctx, publishing, b.World)
}

// Drain implements Workload.
func (b *base) Drain(ctx context.Context) error {
	b.drained(ctx, b.drains...)
	return b.players.failures()
}
