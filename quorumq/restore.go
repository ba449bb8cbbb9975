package quorumq

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/id"
)

// Restore returns the queue that AppendSnapshot wrote. Bytes that are no snapshot of
// this version, or of a state that no queue can be in, are an error.
func Restore(b []byte) (*Queue, error) {
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
	r.check((q.config.Rules == RulesFirst) == (r.version <= snapshotFirstRules), errVersion)
	q.now, q.timer = Time(r.i()), Time(r.i())
	q.used = q.now
	if r.knowsUse() {
		q.used, q.leaseDue = Time(r.i()), Time(r.i())
		q.consumed = q.config.AutoDelete && r.bool()
		r.check(q.used <= q.now, errRange)
	}
	q.dissolving = r.knowsEnd() && r.bool()
	q.store.ready.nextOrd, q.store.ready.nextReturn, q.backlog.next = r.upTo(1<<58), r.u(), Seq(r.u())
	if r.knowsDelays() {
		q.store.delays.next = r.u()
		q.store.ready.rota = rota{level: r.byte(), left: r.byte()}
		r.check(q.store.ready.rota.level < levels && q.store.ready.rota.left <= q.store.ready.rota.level && (q.config.FairPriorities || q.store.ready.rota == rota{}), errRange)
	}
	q.turn, q.baseID = r.u(), MsgID(r.u())
	r.check(q.store.ready.nextOrd > 0 && q.store.ready.nextReturn > 0 && q.backlog.next > 0 && q.store.delays.next > 0 && q.turn > 0, errZero)
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
	q.takeNodes(r)
	q.transfers.restore(r)
	q.producers.restore(r)
	q.takeSessions(r)
	q.takeTurns(r)
	if r.knowsMoves() {
		q.backlog.restoreDestinations(r)
	}
	q.takeWindows(r)
	q.standbys()
	q.store.restoreLevels(r, &q.config)
	q.store.restoreReturned(r, &q.config, q.annotations.share)
	q.backlog.restore(r, q.annotations.share)
	if r.knowsDelays() {
		q.store.restoreDelays(r, &q.config, q.annotations.share)
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("restore %v: %w", uid, err)
	}
	if err := q.check(); err != nil {
		return nil, fmt.Errorf("restore %v: %w", uid, err)
	}
	return q, nil
}

// knowsUse tells whether a snapshot has times of use and leases.
func (r *reader) knowsUse() bool { return r.version > snapshotWithoutUse }

func (r *reader) knowsDelays() bool { return r.version > snapshotWithoutDelay }

func (r *reader) knowsDrops() bool { return r.version > snapshotWithoutDrops }

func (r *reader) knowsGets() bool { return r.version > snapshotWithoutGets }

func (r *reader) knowsEnd() bool { return r.version > snapshotWithoutEnd }

func (r *reader) knowsMoves() bool { return r.version > snapshotWithoutMoves }

func (q *Queue) takeNodes(r *reader) {
	last := id.NodeID("")
	for range r.count(7) {
		n := &node{id: r.node(), epoch: id.Epoch(r.u()), enqueuer: enqueuer{next: Seq(r.u())}, suspected: r.bool()}
		r.check(n.id > last, errUnordered)
		r.check(n.next > 0, errZero)
		if n.suspected {
			n.deadline = Time(r.i())
			q.suspects++
		}
		n.restoreRefused(r)
		closed := r.count(1)
		r.check(closed <= MaxClosedSessions, errRange)
		for range closed {
			s := r.u()
			r.check(!slices.Contains(n.closed, s), errUnordered)
			n.closed = append(n.closed, s)
		}
		if r.err != nil {
			return
		}
		q.nodes[n.id] = n
		last = n.id
	}
}

func (q *Queue) takeSessions(r *reader) {
	for range r.count(6) {
		s := &session{key: r.session(), base: MsgID(r.u())}
		s.node = q.nodes[s.key.Node]
		r.check(s.node != nil, errRange)
		for range r.count(6) {
			if c := q.takeConsumer(r, s); r.err == nil {
				s.consumers = append(s.consumers, c)
			}
		}
		if r.err != nil {
			return
		}
		q.order = append(q.order, s)
		q.sessions[s.key] = s
	}
}

func (q *Queue) takeConsumer(r *reader, s *session) *consumer {
	c := &consumer{key: ConsumerKey{SessionKey: s.key, Tag: r.u32()}, session: s}
	flags := r.flags(consumerFlags)
	c.credit = flags&flagCredit != 0
	c.autoAck = flags&flagAutoAck != 0
	c.exclusive = flags&flagExclusive != 0
	c.cancelled = flags&flagCancelled != 0
	if c.exclusive {
		r.check(q.exclusive == nil && c.subscribes(), errRange)
		q.exclusive = c
	}
	c.prefetch = uint32(r.upTo(MaxOutstanding))
	c.limit = MsgID(r.u())
	priority := r.z()
	c.priority = int32(priority)
	r.check(int64(c.priority) == priority, errRange)
	c.last = MsgID(r.u())
	if r.knowsUse() {
		q.takeLease(r, c, flags)
	}
	if flags&flagActive != 0 {
		r.check(q.active == nil && q.config.SingleActive && c.subscribes(), errRange)
		q.active = c
	}
	if q.config.SingleActive {
		c.since = r.u()
		r.check(c.since > 0 == c.subscribes(), errRange)
	}
	return c
}

// takeLease takes what a snapshot says of a consumer's time.
func (q *Queue) takeLease(r *reader, c *consumer, flags byte) {
	if c.ownTimeout = flags&flagTimesOut != 0; c.ownTimeout {
		c.timeout = r.i()
	}
	c.due = Time(r.i())
	r.check(c.due == 0 || 0 < q.leaseDue && q.leaseDue <= c.due, errRange)
	last := MsgID(0)
	for range r.count(1) {
		more := MsgID(r.u())
		r.check(more > 0 && last+more > last && last+more <= c.last && c.subscribes(), errUnordered)
		last += more
		c.late = append(c.late, last)
	}
}

func (q *Queue) takeTurns(r *reader) {
	for range r.count(2) {
		i, tag := r.u(), r.u32()
		if i >= uint64(len(q.order)) {
			r.fail(errRange)
			return
		}
		s := q.order[i]
		j, ok := s.search(tag)
		if !ok || s.consumers[j].waiting {
			r.fail(errRange)
			return
		}
		c := s.consumers[j]
		if n := len(q.waiting); n == 0 || q.waiting[n-1].priority != c.priority {
			q.waiting = append(q.waiting, turns{priority: c.priority})
		}
		q.waiting[len(q.waiting)-1].push(c)
		c.waiting = true
	}
}

// takeWindows takes what the consumers hold, in the order of the sessions.
func (q *Queue) takeWindows(r *reader) {
	for _, s := range q.order {
		for _, c := range s.consumers {
			q.takeWindow(r, c)
		}
	}
}

func (q *Queue) takeWindow(r *reader, c *consumer) {
	var prev assigned
	for range r.count(12) {
		more := MsgID(r.u())
		r.check(more > 0 && prev.id+more > prev.id, errUnordered)
		a := assigned{id: prev.id + more, turn: r.u()}
		a.message = message{
			ord:   prev.ord + uint64(r.z()),
			index: prev.index + uint64(r.z()),
			slot:  r.u32(),
			size:  r.u32(),
			at:    prev.at + Time(r.z()),
			ttl:   r.limit(),
		}
		a.annIndex, a.annSlot = r.u(), r.u32()
		a.failures, a.acquired = r.u32(), r.u32()
		if r.knowsUse() {
			a.due = prev.due + Time(r.z())
			r.check(a.due == 0 || a.due > 0 && 0 < c.due && c.due <= a.due, errRange)
		}
		r.check(a.size != VoidSize, errRange)
		if r.err != nil {
			return
		}
		q.annotations.share(a.annotations())
		c.held.push(a, q.gen)
		q.unsettled++
		q.unsettledBytes += uint64(a.size)
		prev = a
	}
}
