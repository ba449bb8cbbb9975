package quorumq

import "errors"

// check returns all inconsistencies of the state. If there are none, the queue can process any
// command. It examines every message.
func (q *Queue) check() error {
	if q.drainDeleting && (len(q.subs.order) > 0 || q.subs.unacked.messages > 0) {
		return inv("%d sessions with %d messages in a queue that is being emptied", len(q.subs.order), q.subs.unacked.messages)
	}
	nextOrd := q.store.ready.nextOrd
	if err := errors.Join(
		q.store.ready.check(q.now),
		q.store.delays.check(q.now, nextOrd),
		q.backlog.check(),
		q.nodes.check(),
		q.subs.check(&q.nodes, q.now, nextOrd),
		q.transfers.check(),
		q.producers.check(q.now),
	); err != nil {
		return err
	}
	f := q.share()
	return errors.Join(f.checkBodies(), q.annotations.check(f.annotations()))
}
