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
	if v := r.byte(); r.err == nil && v != snapshotVersion {
		return nil, fmt.Errorf("quorumq: snapshot has version %d, this node knows %d", v, snapshotVersion)
	}
	uid := id.QueueUID(r.u())
	q := New(uid, r.config())
	q.now, q.timer = Time(r.i()), Time(r.i())
	q.ordNext, q.backNext, q.backlogNext = r.upTo(1<<58), r.u(), Seq(r.u())
	q.turn, q.baseID = r.u(), MsgID(r.u())
	r.check(q.ordNext > 0 && q.backNext > 0 && q.backlogNext > 0 && q.turn > 0, errZero)
	for _, v := range q.stats.all() {
		*v = r.u()
	}
	q.takeNodes(r)
	q.takeSources(r)
	q.takeProducers(r)
	q.takeSessions(r)
	q.takeTurns(r)
	q.takeReady(r)
	q.takeReturned(r)
	q.takeBacklog(r)
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("restore %v: %w", uid, err)
	}
	if err := q.check(); err != nil {
		return nil, fmt.Errorf("restore %v: %w", uid, err)
	}
	q.rebuildReadyExpiries()
	q.rebuildBackExpiries()
	return q, nil
}

func (q *Queue) takeNodes(r *reader) {
	last := id.NodeID("")
	for range r.count(7) {
		n := &node{id: r.node(), epoch: id.Epoch(r.u()), next: Seq(r.u()), suspected: r.bool()}
		r.check(n.id > last, errUnordered)
		r.check(n.next > 0, errZero)
		if n.suspected {
			n.deadline = Time(r.i())
			q.suspects++
		}
		seq := Seq(0)
		for range r.count(1) {
			more := Seq(r.u())
			r.check(more > 0 && seq+more > seq, errUnordered)
			seq += more
			n.refused = append(n.refused, seq)
		}
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

func (q *Queue) takeSources(r *reader) {
	last := id.QueueUID(0)
	for i := range r.count(3) {
		uid := id.QueueUID(r.u())
		r.check(i == 0 || uid > last, errUnordered)
		s := &source{settled: Seq(r.u())}
		seq := s.settled
		for range r.count(2) {
			skip, more := Seq(r.u()), Seq(r.u())
			r.check(skip > 0 && seq+skip > seq && seq+skip+more >= seq+skip, errUnordered)
			s.stored = append(s.stored, SeqRange{First: seq + skip, Last: seq + skip + more})
			seq += skip + more
		}
		r.check(s.settled > 0 || len(s.stored) > 0, errZero)
		if r.err != nil {
			return
		}
		q.sources[uid] = s
		last = uid
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
	at, prev := MsgID(0), message{}
	for range r.count(12) {
		more := MsgID(r.u())
		r.check(more > 0 && at+more > at, errUnordered)
		at += more
		a := assigned{id: at, turn: r.u()}
		a.held = q.takeHeldState(r, &prev)
		if r.err != nil {
			return nil
		}
		c.held.push(a)
		q.unsettled++
		q.unsettledBytes += uint64(a.size)
	}
	return c
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

func takeMessageState(r *reader, prev *message) message {
	m := message{
		ord:   prev.ord + uint64(r.z()),
		index: prev.index + uint64(r.z()),
		slot:  r.u32(),
		size:  r.u32(),
		at:    prev.at + Time(r.z()),
		ttl:   r.limit(),
	}
	r.check(m.size != VoidSize, errRange)
	*prev = m
	return m
}

// takeHeldState takes a message with what its assignments left on it.
func (q *Queue) takeHeldState(r *reader, prev *message) held {
	h := held{message: takeMessageState(r, prev)}
	h.annIndex, h.annSlot = r.u(), r.u32()
	h.failures, h.acquired = r.u32(), r.u32()
	if r.err == nil {
		q.shareAnnotations(h.annotations())
	}
	return h
}

func (q *Queue) takeReady(r *reader) {
	occupied := r.u32()
	for l := range q.ready {
		if occupied&(1<<l) == 0 {
			continue
		}
		prev := message{ord: uint64(l)}
		n := r.count(6)
		r.check(n > 0, errZero)
		for range n {
			m := takeMessageState(r, &prev)
			if r.err != nil || m.level() != l {
				r.fail(errRange)
				return
			}
			q.ready[l].push(m)
			q.occupied |= 1 << l
			q.readyN++
			q.readySize += uint64(m.size)
		}
	}
}

func (q *Queue) takeReturned(r *reader) {
	var prev message
	number := uint64(0)
	for range r.count(11) {
		more := r.u()
		r.check(more > 0 && number+more > number, errUnordered)
		number += more
		h := q.takeHeldState(r, &prev)
		if r.err != nil {
			return
		}
		q.back.push(returned{held: h, number: number})
		q.readySize += uint64(h.size)
	}
}

func (q *Queue) takeBacklog(r *reader) {
	var prev discarded
	for range r.count(10) {
		more := Seq(r.u())
		r.check(more > 0 && prev.seq+more > prev.seq, errUnordered)
		d := discarded{seq: prev.seq + more}
		d.index = prev.index + uint64(r.z())
		d.slot, d.size = r.u32(), r.u32()
		d.annIndex, d.annSlot = r.u(), r.u32()
		d.failures, d.acquired = r.u32(), r.u32()
		d.reason = Reason(r.byte())
		d.at = prev.at + Time(r.z())
		r.check(d.size != VoidSize, errRange)
		if r.err != nil {
			return
		}
		q.shareAnnotations(d.annotations())
		q.backlog.push(d)
		q.backlogBytes += uint64(d.size)
		prev = d
	}
}
