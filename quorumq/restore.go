package quorumq

import (
	"fmt"

	"github.com/quorate/quorate/id"
)

// Restore returns the queue that AppendSnapshot wrote. Bytes that are not a snapshot of a known
// version, or that hold an impossible state, are an error.
func Restore(b []byte) (*Queue, error) {
	q, err := read(b)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, fmt.Errorf("restore %v: %w", q.uid, err)
	}
	return q, nil
}

// read is Restore without the check of the state as a whole.
func read(b []byte) (*Queue, error) {
	r := &reader{b: b, nodes: make(map[string]id.NodeID)}
	r.version = r.byte()
	if v := r.version; r.err == nil && (v < snapshotWithoutUse || v > snapshotVersion) {
		err := fmt.Errorf("quorumq: snapshot has version %d, this node knows %d to %d", v, snapshotWithoutUse, snapshotVersion)
		if v > snapshotVersion {
			err = fmt.Errorf("%w: %w", ErrNewer, err)
		}
		return nil, err
	}
	uid := id.QueueUID(r.u())
	q := New(uid, r.config())
	r.check(snapshotOf(q.config.Rules) == max(r.version, snapshotFirstRules), errVersion)
	q.now, q.timer = Time(r.i()), Time(r.i())
	q.idle.used = q.now
	if r.knowsUse() {
		q.idle.used, q.subs.deadlines.due = Time(r.i()), Time(r.i())
		q.idle.consumed = q.config.AutoDelete && r.bool()
		r.check(q.idle.used <= q.now, errRange)
	}
	q.drainDeleting = r.knowsEnd() && r.bool()
	q.store.ready.nextOrd, q.store.ready.nextReturn, q.backlog.next = r.upTo(1<<58), r.u(), Seq(r.u())
	if r.knowsDelays() {
		q.store.delays.next = r.u()
		q.store.ready.roundRobin = weightedRoundRobin{level: r.byte(), left: r.byte()}
		r.check(q.store.ready.roundRobin.level < levels && q.store.ready.roundRobin.left <= q.store.ready.roundRobin.level && (q.config.FairPriorities || q.store.ready.roundRobin == weightedRoundRobin{}), errRange)
	}
	q.subs.unacked.next, q.subs.baseID = r.u(), MsgID(r.u())
	r.check(q.store.ready.nextOrd > 0 && q.store.ready.nextReturn > 0 && q.backlog.next > 0 && q.store.delays.next > 0 && q.subs.unacked.next > 0, errZero)
	all := q.stats.all()
	known := all[:]
	switch {
	case !r.knowsMoves():
		known = all[:countersBeforeMoves]
	case !r.knowsDrops():
		known = all[:countersBeforeDrops]
	case !r.knowsGets():
		known = all[:countersBeforeGets]
	case !r.knowsEnd():
		known = all[:countersBeforeEnd]
	}
	for _, v := range known {
		*v = r.u()
	}
	q.nodes.restore(r)
	q.transfers.restore(r)
	q.producers.restore(r)
	q.subs.restoreSessions(r, &q.nodes)
	q.subs.waiters.restore(r, q.subs.order)
	if r.knowsMoves() {
		q.backlog.restoreDestinations(r)
	}
	q.subs.restoreWindows(r, q.annotations.share)
	q.subs.single.restoreStandbys(q.subs.order)
	q.store.restoreLevels(r, &q.config)
	q.store.restoreReturned(r, &q.config, q.annotations.share)
	q.backlog.restore(r, q.annotations.share)
	if r.knowsDelays() {
		q.store.restoreDelays(r, &q.config, q.annotations.share)
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("restore %v: %w", uid, err)
	}
	return q, nil
}
