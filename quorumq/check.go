package quorumq

import "errors"

// check returns all that is inconsistent in the state. A queue that passes it can be
// driven by any command. It looks at every message.
func (q *Queue) check() error {
	return errors.Join(q.store.ready.check(q.now), q.store.delays.check(q.now, q.store.ready.nextOrd), q.backlog.check(), q.nodes.check(), q.subs.check(&q.nodes, q.now, q.store.ready.nextOrd), q.transfers.check(), q.producers.check(q.now), q.checkBodies(), q.checkDissolving())
}

// checkBodies verifies that each body is referred to once and annotations are counted.
func (q *Queue) checkBodies() error {
	var last BodyRun
	for r := range q.share().Live() {
		if last.Entries > 0 && compareRefs(last.last(), r.first()) >= 0 {
			return inv("body %v is referred to more than once", r.first())
		}
		last = r
	}
	shared := make(map[BodyRef]uint32)
	count := func(r BodyRef) {
		if r != (BodyRef{}) {
			shared[r]++
		}
	}
	for r := range q.store.ready.returned.all() {
		count(r.annotations())
	}
	for d := range q.backlog.set.all() {
		count(d.annotations())
	}
	for d := range q.store.delays.set.all() {
		count(d.annotations())
	}
	for c := range q.subs.order.consumers() {
		for a := range c.held.all() {
			count(a.annotations())
		}
	}
	if len(shared) != len(q.annotations) {
		return inv("%d bodies of annotations, counted %d", len(shared), len(q.annotations))
	}
	for r, n := range shared {
		if q.annotations[r] != n {
			return inv("annotations %v are shared by %d, counted %d", r, n, q.annotations[r])
		}
	}
	return nil
}

// checkDissolving verifies that nobody takes from a queue that is being emptied.
func (q *Queue) checkDissolving() error {
	if q.dissolving && (len(q.subs.order) > 0 || q.subs.unacked.messages > 0) {
		return inv("%d sessions with %d messages in a queue that is being emptied", len(q.subs.order), q.subs.unacked.messages)
	}
	return nil
}
