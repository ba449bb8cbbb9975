package quorumq

import "slices"

// Limits of what a queue remembers about producers, so that a message that is repeated under the same number, perhaps
// through another node, is stored once.
const (
	// MaxProducers limits the remembered producers; above it, the producer that was silent longest is forgotten.
	MaxProducers = 10_000
	// ProducerRetentionMs is how long a silent producer is remembered, in milliseconds.
	ProducerRetentionMs int64 = 24 * 60 * 60 * 1000
	// MaxProducerRefusals limits the refused numbers remembered for each producer.
	MaxProducerRefusals = 10_000
)

// producers is what a queue remembers about publishers that number their messages, over all nodes
// that they publish through (PUB-6).
//
// Invariants, see check: at most MaxProducers are known. They are linked in the order of their
// newest messages, so the times ascend along the list.
type producers struct {
	byID           map[ProducerID]*producer
	oldest, newest *producer
}

// producer is what a queue remembers about one publisher. The numbers of its messages ascend, so
// all up to last are decided. Those in refused, at most MaxProducerRefusals, were refused.
type producer struct {
	id      ProducerID
	last    uint64
	refused []uint64 // ascending
	used    Time

	older, newer *producer
}

// repeated reports whether the queue has decided about this message of a producer before, and
// whether it was refused then.
func (ps *producers) repeated(m *NewMessage) (known, refused bool) {
	if m.Producer == nil {
		return false, false
	}
	p := ps.find(m.Producer)
	if p == nil || m.ProducerSeq > p.last {
		return false, false
	}
	_, refused = slices.BinarySearch(p.refused, m.ProducerSeq)
	return true, refused
}

// decided remembers the outcome of a producer's message.
func (ps *producers) decided(m *NewMessage, stored bool, now Time) {
	if m.Producer == nil {
		return
	}
	p := ps.find(m.Producer)
	if p == nil {
		p = &producer{id: *m.Producer}
		ps.byID[p.id] = p
	} else {
		ps.unlink(p)
	}
	ps.append(p)
	p.last, p.used = m.ProducerSeq, now
	if !stored {
		if len(p.refused) == MaxProducerRefusals {
			p.refused = slices.Delete(p.refused, 0, 1)
		}
		p.refused = append(p.refused, m.ProducerSeq)
	}
	ps.forget(now)
}

// find returns the producer with this id, nil if it is not known. It checks the newest one first, because messages of
// one producer often follow each other.
func (ps *producers) find(id *ProducerID) *producer {
	if p := ps.newest; p != nil && p.id == *id {
		return p
	}
	return ps.byID[*id]
}

// forget removes producers that were silent for too long, and the oldest ones if there are too
// many.
func (ps *producers) forget(now Time) {
	for p := ps.oldest; p != nil; p = ps.oldest {
		if len(ps.byID) <= MaxProducers && after(p.used, ProducerRetentionMs) > now {
			return
		}
		ps.unlink(p)
		delete(ps.byID, p.id)
	}
}

// append makes a producer the newest.
func (ps *producers) append(p *producer) {
	p.older, p.newer = ps.newest, nil
	if ps.newest != nil {
		ps.newest.newer = p
	} else {
		ps.oldest = p
	}
	ps.newest = p
}

// unlink removes a producer from the list.
func (ps *producers) unlink(p *producer) {
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		ps.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		ps.newest = p.older
	}
	p.older, p.newer = nil, nil
}

// put writes all producers, beginning with the one that was silent for longest.
func (ps *producers) put(b []byte) []byte {
	b = putU(b, uint64(len(ps.byID)))
	used := Time(0)
	for p := ps.oldest; p != nil; p = p.newer {
		b = append(b, p.id[:]...)
		b = putU(putU(b, p.last), uint64(p.used-used))
		used = p.used
		b = putU(b, uint64(len(p.refused)))
		last := uint64(0)
		for _, s := range p.refused {
			b = putU(b, s-last)
			last = s
		}
	}
	return b
}

// restore reads the producers from a snapshot.
func (ps *producers) restore(r *reader) {
	used := Time(0)
	for range r.count(len(ProducerID{}) + 3) {
		p := &producer{id: r.producerID(), last: r.u()}
		silent := Time(r.i())
		r.check(used+silent >= used, errRange)
		used += silent
		p.used = used
		seq := uint64(0)
		for range r.count(1) {
			more := r.u()
			r.check(more > 0 && seq+more > seq, errUnordered)
			seq += more
			p.refused = append(p.refused, seq)
		}
		r.check(p.last > 0, errZero)
		r.check(seq <= p.last && ps.byID[p.id] == nil, errUnordered)
		if r.err != nil {
			return
		}
		ps.byID[p.id] = p
		ps.append(p)
	}
}

// check returns an inconsistency, if there is one.
func (ps *producers) check(now Time) error {
	n, used := 0, Time(0)
	for p := ps.oldest; p != nil; p = p.newer {
		n++
		switch {
		case ps.byID[p.id] != p:
			return inv("producer %x is not known by its id", p.id)
		case p.used < used || p.used > now:
			return inv("producer %x spoke at %d, the one before at %d, now %d", p.id, p.used, used, now)
		case len(p.refused) > MaxProducerRefusals:
			return inv("producer %x has %d refusals", p.id, len(p.refused))
		}
		used = p.used
	}
	if n != len(ps.byID) || n > MaxProducers {
		return inv("%d producers in order, %d by id", n, len(ps.byID))
	}
	return nil
}
