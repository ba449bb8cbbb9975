package broker

import (
	"iter"

	"github.com/quorate/quorate/quorumq"
)

// LedQueue is a queue that this node leads, or led when it went to sleep.
type LedQueue struct {
	UID         uint64
	VHost, Name string
	Figures     *quorumq.Overview // valid until the next is yielded
}

// LedQueues yields the queues that this node leads, in no order. It asks no other node, and checks no permission: it is
// for the operator's metrics.
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

// DeadLetterCauses are a node's figures of dead letters by cause (DL-52).
type DeadLetterCauses struct {
	Waiting map[string]uint64 // dead letters that cannot go on now
	Retries map[string]uint64 // attempts that failed, since the start
	Lost    map[string]uint64 // at-most-once copies that no target took, since the start (DL-10)
	Blocked int               // queues with dead letters that wait now
}

// DeadLetterCauses returns the figures of all queues that this node leads, with those of
// terms that are over.
func (b *Broker) DeadLetterCauses() DeadLetterCauses {
	c := b.cluster
	f := c.DeadLetterFigures()
	return DeadLetterCauses{Waiting: f.Waiting.ByWord(), Retries: f.Retries.ByWord(), Lost: f.Lost.ByWord(), Blocked: f.Blocked}
}
