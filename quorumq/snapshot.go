package quorumq

// putRest appends everything that is not shared with a frozen state: all but
// messages.
func (q *Queue) putRest(b []byte) []byte {
	b = append(b, snapshotOf(q.config.Rules))
	b = putU(b, uint64(q.uid))
	b = putConfig(b, q.config)
	b = putU(putU(putU(b, uint64(q.now)), uint64(q.timer)), uint64(q.idle.used))
	b = putU(b, uint64(q.subs.deadlines.due))
	if q.config.AutoDelete {
		b = putBool(b, q.idle.consumed)
	}
	b = putBool(b, q.drainDeleting)
	b = putU(putU(putU(putU(b, q.store.ready.nextOrd), q.store.ready.nextReturn), uint64(q.backlog.next)), q.store.delays.next)
	b = append(b, q.store.ready.roundRobin.level, q.store.ready.roundRobin.left)
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
