package quorumq

// HeldBytes returns the bytes of all messages that the queue has, however they are held.
func (q *Queue) HeldBytes() uint64 {
	return q.store.ready.bytes + q.unsettledBytes + q.backlog.bytes + q.store.delays.bytes
}

// Now returns the newest time that the queue has seen; 0: it has had no command (C-6).
func (q *Queue) Now() Time { return q.now }

// Config returns what is in force.
func (q *Queue) Config() Config { return q.config }

// Overview returns the figures of ST-1. It looks at each returned message.
func (q *Queue) Overview() Overview {
	s := &q.stats
	o := Overview{
		Ready:             uint64(q.store.ready.len()),
		Returned:          uint64(q.store.ready.returned.len()),
		Unsettled:         uint64(q.unsettled),
		Backlog:           uint64(q.backlog.set.len()),
		ReadyBytes:        q.store.ready.bytes,
		UnsettledBytes:    q.unsettledBytes,
		BacklogBytes:      q.backlog.bytes,
		Delayed:           uint64(q.store.delays.set.len()),
		DelayedBytes:      q.store.delays.bytes,
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
		Moving:            q.backlog.moving(),
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
	if d := q.backlog.set.front(); d != nil {
		o.OldestBacklog = d.at
	}
	if e, ok := q.store.delays.first(); ok {
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
	for l := range q.store.ready.occupiedLevels() {
		o.ReadyByPriority[l] = uint64(q.store.ready.levels[l].len())
		if m := q.store.ready.levels[l].front(); m != nil {
			o.older(m)
		}
	}
	for r := range q.store.ready.returned.all() {
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
