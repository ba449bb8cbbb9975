package quorumq

// stats holds counters since the creation of the queue (ST-1, DL-52).
type stats struct {
	enqueued, refused, settled, expired, delivered     uint64
	redelivered, returned, limitHits, dedup, confirmed uint64
	repeats, moved, removed, abandoned, abandonedBytes uint64
	returnedFailed, gets, emptyGets, timeouts          uint64
	discarded                                          [3][LastReason + 1]uint64 // by DeadLetterMode, then Reason
}

// counters is the number of counters in a snapshot.
const counters = 34

// How many counters older snapshots have: those without moved messages, without dropped dead
// letters, without Gets, and without dead letters of deleted queues.
const (
	countersBeforeMoves = 23
	countersBeforeDrops = 25
	countersBeforeGets  = 27
	countersBeforeEnd   = 31
)

// all returns the counters in their stored order.
func (s *stats) all() (all [counters]*uint64) {
	n := copy(all[:], []*uint64{
		&s.enqueued, &s.refused, &s.settled, &s.expired, &s.delivered,
		&s.redelivered, &s.returned, &s.limitHits, &s.dedup, &s.confirmed, &s.repeats,
	})
	for mode := range s.discarded {
		for r := ReasonRejected; r <= ReasonDeliveryLimit; r++ {
			all[n] = &s.discarded[mode][r]
			n++
		}
	}
	n += copy(all[n:], []*uint64{&s.moved, &s.removed, &s.abandoned, &s.abandonedBytes, &s.returnedFailed, &s.gets, &s.emptyGets, &s.timeouts})
	for mode := range s.discarded {
		all[n+mode] = &s.discarded[mode][ReasonQueueDeleted]
	}
	return all
}
