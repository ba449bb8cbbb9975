package quorumq

import (
	"iter"
	"math/bits"
)

// HeldBytes returns the bytes of all messages that the queue has, however they are held.
func (q *Queue) HeldBytes() uint64 {
	return q.readySize + q.unsettledBytes + q.backlogBytes + q.delays.size
}

// Now returns the newest time that the queue has seen; 0: it has had no command (C-6).
func (q *Queue) Now() Time { return q.now }

// Config returns what is in force.
func (q *Queue) Config() Config { return q.config }

// Overview returns the figures of ST-1. It looks at each returned message.
func (q *Queue) Overview() Overview {
	s := &q.stats
	o := Overview{
		Ready:             uint64(q.readyLen()),
		Returned:          uint64(q.back.len()),
		Unsettled:         uint64(q.unsettled),
		Backlog:           uint64(q.backlog.len()),
		ReadyBytes:        q.readySize,
		UnsettledBytes:    q.unsettledBytes,
		BacklogBytes:      q.backlogBytes,
		Delayed:           uint64(q.delays.set.len()),
		DelayedBytes:      q.delays.size,
		Sessions:          len(q.order),
		Enqueued:          s.enqueued,
		Refused:           s.refused,
		Settled:           s.settled,
		Expired:           s.expired,
		Delivered:         s.delivered,
		Redelivered:       s.redelivered,
		ReturnedTotal:     s.returned,
		DeliveryLimitHits: s.limitHits,
		Dedup:             s.dedup,
		Repeats:           s.repeats,
		Confirmed:         s.confirmed,
		Moving:            q.moving(),
		Moved:             s.moved,
		Removed:           s.removed,
		Abandoned:         s.abandoned,
		AbandonedBytes:    s.abandonedBytes,
		ReturnedFailed:    s.returnedFailed,
		Gets:              s.gets,
		EmptyGets:         s.emptyGets,
		ConsumerTimeouts:  s.timeouts,
		Discarded:         s.discarded,
		Dissolving:        q.dissolving,
		Full:              q.refuses() && q.full(0),
		Now:               q.now,
		Config:            q.config,
	}
	if d := q.backlog.front(); d != nil {
		o.OldestBacklog = d.at
	}
	if e, ok := q.firstDelayed(); ok {
		o.NextDelayed = e.at
	}
	for r := range o.DeadLettered {
		o.Dropped += s.discarded[DeadLetterDisabled][r]
		o.DeadLettered[r] = s.discarded[DeadLetterAtMostOnce][r] + s.discarded[DeadLetterAtLeastOnce][r]
	}
	for _, s := range q.order {
		for _, c := range s.consumers {
			if c.subscribes() {
				o.Consumers++
				if c.canTake() {
					o.ConsumersIdle++
				}
			}
		}
	}
	for _, n := range q.nodes {
		if n.next > 1 {
			o.Enqueuers++
		}
	}
	for l := range q.occupiedLevels() {
		o.ReadyByPriority[l] = uint64(q.ready[l].len())
		if m := q.ready[l].front(); m != nil {
			o.older(m)
		}
	}
	for r := range q.back.all() {
		o.ReadyByPriority[r.level()]++
		o.older(&r.message)
	}
	return o
}

func (o *Overview) older(m *message) {
	if o.OldestReady == 0 || m.at < o.OldestReady {
		o.OldestReady = m.at
	}
}

// occupiedLevels yields the levels that hold messages, ascending.
func (q *Queue) occupiedLevels() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := q.occupied; rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros32(rest)) {
				return
			}
		}
	}
}
