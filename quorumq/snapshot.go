package quorumq

import (
	"maps"
	"slices"
)

// snapshotVersion is the first byte of a snapshot; see docs/formats/snapshot.md.
const snapshotVersion = 1

// AppendSnapshot appends the whole state. Equal states give equal bytes. A checksum is
// the business of whoever stores it.
func (q *Queue) AppendSnapshot(b []byte) []byte {
	b = append(b, snapshotVersion)
	b = putU(b, uint64(q.uid))
	b = putConfig(b, q.config)
	b = putU(putU(b, uint64(q.now)), uint64(q.timer))
	b = putU(putU(putU(b, q.ordNext), q.backNext), uint64(q.backlogNext))
	b = putU(putU(b, q.turn), uint64(q.baseID))
	for _, v := range q.stats.all() {
		b = putU(b, *v)
	}
	b = q.putNodes(b)
	b = q.putSources(b)
	b = q.putProducers(b)
	b = q.putSessions(b)
	b = q.putTurns(b)
	b = q.putReady(b)
	b = q.putReturned(b)
	return q.putBacklog(b)
}

// counters is the number of counters in a snapshot.
const counters = 23

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
	return all
}

func (q *Queue) putNodes(b []byte) []byte {
	b = putU(b, uint64(len(q.nodes)))
	for _, name := range slices.Sorted(maps.Keys(q.nodes)) {
		n := q.nodes[name]
		b = putU(putNode(b, name), uint64(n.epoch))
		b = putU(b, uint64(n.next))
		b = putBool(b, n.suspected)
		if n.suspected {
			b = putU(b, uint64(n.deadline))
		}
		b = putU(b, uint64(len(n.refused)))
		last := Seq(0)
		for _, s := range n.refused {
			b = putU(b, uint64(s-last))
			last = s
		}
		b = putU(b, uint64(len(n.closed)))
		for _, s := range n.closed {
			b = putU(b, s)
		}
	}
	return b
}

func (q *Queue) putSources(b []byte) []byte {
	b = putU(b, uint64(len(q.sources)))
	for _, uid := range slices.Sorted(maps.Keys(q.sources)) {
		s := q.sources[uid]
		b = putU(putU(b, uint64(uid)), uint64(s.settled))
		b = putU(b, uint64(len(s.stored)))
		last := s.settled
		for _, r := range s.stored {
			b = putU(putU(b, uint64(r.First-last)), uint64(r.Last-r.First))
			last = r.Last
		}
	}
	return b
}

// Flags of a consumer.
const (
	flagCancelled = checkoutFlags + 1
	consumerFlags = checkoutFlags | flagCancelled
)

func (q *Queue) putSessions(b []byte) []byte {
	b = putU(b, uint64(len(q.order)))
	for _, s := range q.order {
		b = putU(putSession(b, s.key), uint64(s.base))
		b = putU(b, uint64(len(s.consumers)))
		for _, c := range s.consumers {
			b = putConsumerState(b, c)
		}
	}
	return b
}

func putConsumerState(b []byte, c *consumer) []byte {
	flags := byte(0)
	for i, set := range [...]bool{c.credit, c.autoAck, c.exclusive, c.cancelled} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(putU(b, uint64(c.key.Tag)), flags)
	b = putU(putU(b, uint64(c.prefetch)), uint64(c.limit))
	b = putZ(b, int64(c.priority))
	b = putU(putU(b, uint64(c.last)), uint64(c.held.live))
	lastID, prev := MsgID(0), message{}
	for a := range c.held.all() {
		b = putU(putU(b, uint64(a.id-lastID)), a.turn)
		b = putHeld(b, &a.held, &prev)
		lastID = a.id
	}
	return b
}

// putTurns writes who stands in line, by priority and place.
func (q *Queue) putTurns(b []byte) []byte {
	n := 0
	for i := range q.waiting {
		n += q.waiting[i].len()
	}
	b = putU(b, uint64(n))
	for i := range q.waiting {
		t := &q.waiting[i]
		for _, c := range t.line[t.head:] {
			s, _ := q.searchOrder(c.key.SessionKey)
			b = putU(putU(b, uint64(s)), uint64(c.key.Tag))
		}
	}
	return b
}

// putMessageState writes a message as its differences from the one before in its list.
func putMessageState(b []byte, m, prev *message) []byte {
	b = putZ(b, int64(m.ord-prev.ord))
	b = putZ(b, int64(m.index-prev.index))
	b = putU(putU(b, uint64(m.slot)), uint64(m.size))
	b = putZ(b, int64(m.at-prev.at))
	b = putLimit(b, m.ttl)
	*prev = *m
	return b
}

func putHeld(b []byte, h *held, prev *message) []byte {
	b = putMessageState(b, &h.message, prev)
	b = putU(putU(b, h.annIndex), uint64(h.annSlot))
	return putU(putU(b, uint64(h.failures)), uint64(h.acquired))
}

func (q *Queue) putReady(b []byte) []byte {
	b = putU(b, uint64(q.occupied))
	for l := range q.occupiedLevels() {
		b = putU(b, uint64(q.ready[l].len()))
		prev := message{ord: uint64(l)}
		for m := range q.ready[l].all() {
			b = putMessageState(b, m, &prev)
		}
	}
	return b
}

func (q *Queue) putReturned(b []byte) []byte {
	b = putU(b, uint64(q.back.len()))
	last, prev := uint64(0), message{}
	for r := range q.back.all() {
		b = putU(b, r.number-last)
		b = putHeld(b, &r.held, &prev)
		last = r.number
	}
	return b
}

func (q *Queue) putBacklog(b []byte) []byte {
	b = putU(b, uint64(q.backlog.len()))
	var prev discarded
	for d := range q.backlog.all() {
		b = putU(b, uint64(d.seq-prev.seq))
		b = putZ(b, int64(d.index-prev.index))
		b = putU(putU(b, uint64(d.slot)), uint64(d.size))
		b = putU(putU(b, d.annIndex), uint64(d.annSlot))
		b = putU(putU(b, uint64(d.failures)), uint64(d.acquired))
		b = putZ(append(b, byte(d.reason)), int64(d.at-prev.at))
		prev = *d
	}
	return b
}
