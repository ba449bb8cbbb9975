package quorumq

// snapshotVersion is the first byte of a snapshot; see docs/formats/snapshot.md.
const snapshotVersion = 9

// Versions that are read too.
const (
	snapshotWithoutUse   = 2 // does not say when the queue was used last, nor of leases
	snapshotWithoutMoves = 3 // does not know of moved messages
	snapshotWithoutDelay = 4 // does not know of delayed messages
	snapshotWithoutDrops = 5 // does not count dead letters dropped at a switch
	snapshotWithoutGets  = 6 // counts no Gets, nor time-outs, nor failed returns
	snapshotWithoutEnd   = 7 // knows nothing of queues that are being emptied
	snapshotFirstRules   = 8 // of a queue under RulesFirst, written still: older builds read it
)

// AppendSnapshot appends the whole state. Equal states give equal bytes. A checksum is
// the business of whoever stores it.
func (q *Queue) AppendSnapshot(b []byte) []byte { return q.share().AppendSnapshot(b) }

// putRest appends what is not shared with a frozen state: all but messages.
func (q *Queue) putRest(b []byte) []byte {
	if q.config.Rules == RulesFirst {
		b = append(b, snapshotFirstRules)
	} else {
		b = append(b, snapshotVersion)
	}
	b = putU(b, uint64(q.uid))
	b = putConfig(b, q.config)
	b = putU(putU(putU(b, uint64(q.now)), uint64(q.timer)), uint64(q.used))
	b = putU(b, uint64(q.subs.leases.due))
	if q.config.AutoDelete {
		b = putBool(b, q.consumed)
	}
	b = putBool(b, q.dissolving)
	b = putU(putU(putU(putU(b, q.store.ready.nextOrd), q.store.ready.nextReturn), uint64(q.backlog.next)), q.store.delays.next)
	b = append(b, q.store.ready.rota.level, q.store.ready.rota.left)
	b = putU(putU(b, q.subs.unacked.next), uint64(q.subs.baseID))
	for _, v := range q.stats.all() {
		b = putU(b, *v)
	}
	b = q.nodes.put(b)
	b = q.transfers.put(b)
	b = q.producers.put(b)
	b = q.subs.putSessions(b)
	return q.backlog.putDestinations(q.subs.putWaiters(b))
}

// counters is the number of counters in a snapshot.
const counters = 34

// How many of them older snapshots had: those that did not know of moved messages, those
// that did not count dropped dead letters, those that did not count Gets, and those that did
// not know of dead letters of deleted queues.
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
