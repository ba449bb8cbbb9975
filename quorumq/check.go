package quorumq

import (
	"errors"
	"slices"
)

// check returns all that is inconsistent in the state. A queue that passes it can be
// driven by any command. It looks at every message.
func (q *Queue) check() error {
	return errors.Join(q.store.ready.check(q.now), q.store.delays.check(q.now, q.store.ready.nextOrd), q.backlog.check(), q.checkRoster(), q.checkExclusive(), q.checkActive(), q.checkTurns(), q.transfers.check(), q.producers.check(q.now), q.checkBodies(), q.checkDissolving())
}

func (q *Queue) checkRoster() error {
	held, size, suspects := 0, uint64(0), 0
	var before SessionKey
	for i, s := range q.order {
		if i > 0 && compareSessions(before, s.key) >= 0 {
			return inv("session %v after %v", s.key, before)
		}
		before = s.key
		if q.sessions[s.key] != s || s.node != q.nodes[s.key.Node] || s.node.epoch != s.key.Epoch {
			return inv("session %v stands alone", s.key)
		}
		if slices.Contains(s.node.closed, s.key.Session) {
			return inv("session %v is closed", s.key)
		}
		for j, c := range s.consumers {
			if c.key.SessionKey != s.key || c.session != s || s.closed || j > 0 && s.consumers[j-1].key.Tag >= c.key.Tag {
				return inv("consumer %v in session %v", c.key, s.key)
			}
			n, b, err := q.checkWindow(c)
			if err != nil {
				return err
			}
			held += n
			size += b
		}
	}
	if held != q.unsettled || size != q.unsettledBytes || len(q.sessions) != len(q.order) {
		return inv("%d unsettled messages, %d bytes, counted %d, %d", held, size, q.unsettled, q.unsettledBytes)
	}
	for _, n := range q.nodes {
		if n.suspected {
			suspects++
		}
		if !n.check() {
			return inv("node %q refused %v, next %d", n.id, n.refused, n.next)
		}
	}
	if suspects != q.suspects {
		return inv("%d suspected nodes, counted %d", suspects, q.suspects)
	}
	return nil
}

func (q *Queue) checkWindow(c *consumer) (n int, size uint64, err error) {
	w := &c.held
	var last MsgID
	for i := w.head; i < len(w.items); i++ {
		a := &w.items[i]
		if a.id <= last || a.id > c.last || a.turn >= q.turn {
			return 0, 0, inv("consumer %v holds id %d after %d of %d", c.key, a.id, last, c.last)
		}
		last = a.id
		if a.isRemoved() {
			continue
		}
		if err := a.check(q.now, q.store.ready.nextOrd); err != nil {
			return 0, 0, err
		}
		if a.due != 0 && (c.due == 0 || a.due < c.due || q.leaseDue == 0 || c.due < q.leaseDue) {
			return 0, 0, inv("consumer %v is to give %d back at %d, looks at %d, the queue at %d", c.key, a.id, a.due, c.due, q.leaseDue)
		}
		n++
		size += uint64(a.size)
	}
	if n != w.live || c.cancelled && n == 0 {
		return 0, 0, inv("consumer %v holds %d, counted %d", c.key, n, w.live)
	}
	return n, size, nil
}

// checkExclusive verifies who bars others (CO-2).
func (q *Queue) checkExclusive() error {
	var exclusive *consumer
	subscribers := 0
	for _, s := range q.order {
		for _, c := range s.consumers {
			if c.subscribes() {
				subscribers++
			}
			if c.exclusive {
				exclusive = c
			}
		}
	}
	if exclusive != q.exclusive || exclusive != nil && (subscribers != 1 || !exclusive.subscribes()) {
		return inv("exclusive among %d subscribers", subscribers)
	}
	return nil
}

// checkActive verifies who receives and who waits (SAC-1, SAC-2).
func (q *Queue) checkActive() error {
	best := q.favourite()
	seen := make(map[uint64]bool)
	for _, s := range q.order {
		for _, c := range s.consumers {
			switch {
			case c.since > 0 != (q.config.SingleActive && c.subscribes()), seen[c.since] && c.since > 0:
				return inv("consumer %v is number %d of those that take turns", c.key, c.since)
			case c.standby != (c.since > 0 && (c != q.active || best != nil && best != c)):
				return inv("consumer %v stands by %t, active is %t", c.key, c.standby, c == q.active)
			}
			seen[c.since] = true
		}
	}
	a := q.active
	if a == nil && best != nil || a != nil && (q.consumer(a.key) != a || best != nil && best != a && a.held.live == 0) {
		return inv("the active consumer is not the one that should be")
	}
	return nil
}

func (q *Queue) checkTurns() error {
	inLine := make(map[*consumer]bool)
	for i := range q.waiting {
		t := &q.waiting[i]
		if i > 0 && q.waiting[i-1].priority <= t.priority {
			return inv("line of priority %d after %d", t.priority, q.waiting[i-1].priority)
		}
		for _, c := range t.line[t.head:] {
			if inLine[c] || !c.waiting || c.priority != t.priority || q.consumer(c.key) != c {
				return inv("consumer %v stands in line %d", c.key, t.priority)
			}
			inLine[c] = true
		}
	}
	for _, s := range q.order {
		for _, c := range s.consumers {
			if c.waiting != inLine[c] || !c.waiting && c.canTake() {
				return inv("consumer %v waits %t, stands in line %t", c.key, c.waiting, inLine[c])
			}
		}
	}
	return nil
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
	for _, s := range q.order {
		for _, c := range s.consumers {
			for a := range c.held.all() {
				count(a.annotations())
			}
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
