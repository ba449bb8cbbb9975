package broker

import (
	"context"
	"iter"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// LedQueue is a queue that this node leads, or led before the queue hibernated, or for which it stands in for the node that
// did.
type LedQueue struct {
	UID         uint64
	VHost, Name string
	Figures     *quorumq.Overview // valid until the next queue is yielded
}

// LedQueues yields the queues that this node leads, in no order. It asks no other node. It checks no permission,
// because it serves the operator's metrics.
func (b *Broker) LedQueues() iter.Seq[LedQueue] {
	return func(yield func(LedQueue) bool) {
		c := b.cluster
		v := c.View()
		for uid, o := range c.LedFigures() {
			r, ok := v.QueueByUID(uid)
			if ok && !yield(LedQueue{UID: uint64(uid), VHost: r.VHost, Name: r.Name, Figures: o}) {
				return
			}
		}
	}
}

// ExchangeCounts are the counts of an exchange on one node.
type ExchangeCounts = clients.ExchangeFigures

// AllExchangeCounts returns what the clients of each node have published to each exchange, and the nodes that did not answer.
// It checks no permission: whoever shows them does.
func (b *Broker) AllExchangeCounts(ctx context.Context) (all []ExchangeCounts, silent []string, err error) {
	all, nodes, err := b.everywhere.Exchanges(ctx)
	return all, id.Names(nodes), failure.Translate(err, failure.Error{Kind: "exchanges"})
}

// DeadLetterCauses counts a node's dead letters by cause (DL-52).
type DeadLetterCauses struct {
	Waiting map[string]uint64 // dead letters that cannot be forwarded now
	Retries map[string]uint64 // failed attempts, since the start
	Lost    map[string]uint64 // at-most-once copies that no target took, since the start (DL-10)
	Blocked int               // queues whose dead letters wait now
}

// DeadLetterCauses returns the figures of all queues that this node leads, including those of terms that have ended.
func (b *Broker) DeadLetterCauses() DeadLetterCauses {
	c := b.cluster
	f := c.DeadLetterFigures()
	return DeadLetterCauses{Waiting: f.Waiting.ByWord(), Retries: f.Retries.ByWord(), Lost: f.Lost.ByWord(), Blocked: f.Blocked}
}
