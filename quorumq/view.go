package quorumq

import (
	"iter"
	"maps"
	"slices"

	"github.com/quorate/quorate/id"
)

// HeldBytes returns the bytes of all messages in the queue, in any state.
func (q *Queue) HeldBytes() uint64 {
	return q.store.ready.bytes + q.subs.unacked.bytes + q.backlog.bytes + q.store.delays.bytes
}

// Now returns the queue's time; 0: it has had no command (C-6).
func (q *Queue) Now() Time { return q.now }

// Config returns the configuration in force.
func (q *Queue) Config() Config { return q.config }

// Overview returns the statistics of ST-1. Its cost grows with the number of returned messages.
func (q *Queue) Overview() Overview {
	s := &q.stats
	o := Overview{
		Ready:             uint64(q.store.ready.len()),
		Returned:          uint64(q.store.ready.returned.len()),
		Unsettled:         uint64(q.subs.unacked.messages),
		Backlog:           uint64(q.backlog.set.len()),
		ReadyBytes:        q.store.ready.bytes,
		UnsettledBytes:    q.subs.unacked.bytes,
		BacklogBytes:      q.backlog.bytes,
		Delayed:           uint64(q.store.delays.set.len()),
		DelayedBytes:      q.store.delays.bytes,
		Sessions:          len(q.subs.order),
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
		SourceRanges:      q.transfers.ranges(),
		Discarded:         s.discarded,
		DrainDeleting:     q.drainDeleting,
		Full:              q.refuses(1, 0),
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
	for c := range q.subs.order.consumers() {
		if c.subscribes() {
			o.Consumers++
			if c.canTake() {
				o.ConsumersIdle++
			}
		}
	}
	o.Enqueuers = q.nodes.enqueuers()
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

// older lowers OldestReady to the time of a message, if that is older.
func (o *Overview) older(m *message) {
	if o.OldestReady == 0 || m.at < o.OldestReady {
		o.OldestReady = m.at
	}
}

// Assigned appends the deliveries that the consumer holds with ids above last, for a gateway that
// has missed some (Resume, DEL-12).
func (q *Queue) Assigned(dst []Delivery, k ConsumerKey, last MsgID) []Delivery {
	c := q.subs.consumer(k)
	if c == nil || last >= c.last {
		return dst
	}
	for i := c.held.search(last + 1); i < len(c.held.items); i++ {
		if a := &c.held.items[i]; !a.isRemoved() {
			dst = append(dst, a.delivery(c.key))
		}
	}
	return dst
}

// Holds returns one delivery that the consumer holds; false if it does not hold it.
func (q *Queue) Holds(k ConsumerKey, m MsgID) (Delivery, bool) {
	c := q.subs.consumer(k)
	if c == nil {
		return Delivery{}, false
	}
	i := c.held.search(m)
	if i == len(c.held.items) || c.held.items[i].id != m || c.held.items[i].isRemoved() {
		return Delivery{}, false
	}
	return c.held.items[i].delivery(c.key), true
}

// LastMsgID returns the newest id assigned to a consumer, and whether the queue knows the consumer.
func (q *Queue) LastMsgID(k ConsumerKey) (MsgID, bool) {
	c := q.subs.consumer(k)
	if c == nil {
		return 0, false
	}
	return c.last, true
}

// Consumes reports whether a session is that of a consumer; other sessions are for Get.
func (q *Queue) Consumes(k SessionKey) bool {
	s := q.subs.sessions[k]
	return s != nil && slices.ContainsFunc(s.consumers, func(c *consumer) bool { return c.key.Tag != 0 })
}

// Sessions yields the sessions known to the queue, ascending by key.
func (q *Queue) Sessions() iter.Seq[SessionKey] {
	return func(yield func(SessionKey) bool) {
		for _, s := range q.subs.order {
			if !yield(s.key) {
				return
			}
		}
	}
}

// Activity appends the notices about which of a session's consumers is the active one; none if the
// queue has no single active consumer.
func (q *Queue) Activity(dst []Notice, k SessionKey) []Notice {
	if s := q.subs.sessions[k]; s != nil {
		q.subs.single.announce(s, (*notices)(&dst))
	}
	return dst
}

// Active returns the active consumer of a queue that has one at a time (SAC-1).
func (q *Queue) Active() (ConsumerKey, bool) {
	if q.subs.single.active == nil {
		return ConsumerKey{}, false
	}
	return q.subs.single.active.key, true
}

// Sources yields the queues of whose dead letters this queue remembers something (DL-25), in no particular order.
func (q *Queue) Sources() iter.Seq[id.QueueUID] { return maps.Keys(q.transfers) }

// Sealed reports whether the deletion of the queue is decided: it is empty, and refuses all that comes (Q-15, Q-18, QX-3).
func (q *Queue) Sealed() bool { return q.sealed() }

// DrainDeleting reports whether the queue is being emptied for its deletion, or is sealed.
func (q *Queue) DrainDeleting() bool { return q.drainDeleting }
