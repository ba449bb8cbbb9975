package quorumq

import "slices"

// Limits of what a queue remembers of producers, so that a message that comes again
// under the same number, perhaps through another node, is stored once.
const (
	// MaxProducers bounds the producers remembered; beyond it the one that has been
	// silent for longest is forgotten.
	MaxProducers = 10_000
	// ProducerRetentionMs is how long a silent producer is remembered, in milliseconds.
	ProducerRetentionMs int64 = 24 * 60 * 60 * 1000
	// MaxProducerRefusals bounds the refused numbers remembered per producer.
	MaxProducerRefusals = 10_000
)

// producers are known by id and ordered by their newest message.
type producers struct {
	byID           map[ProducerID]*producer
	oldest, newest *producer
}

// producer is what a queue knows of a publisher: the numbers of its messages ascend, so
// that all up to last have been decided, those in refused by refusal.
type producer struct {
	id      ProducerID
	last    uint64
	refused []uint64 // ascending
	used    Time

	older, newer *producer
}

// repeated tells whether the queue has decided about this message of a producer before,
// and whether by refusing it.
func (q *Queue) repeated(m *NewMessage) (known, refused bool) {
	if m.Producer == nil {
		return false, false
	}
	p := q.findProducer(m.Producer)
	if p == nil || m.ProducerSeq > p.last {
		return false, false
	}
	q.stats.repeats++
	_, refused = slices.BinarySearch(p.refused, m.ProducerSeq)
	return true, refused
}

// decided remembers what became of a producer's message.
func (q *Queue) decided(m *NewMessage, stored bool) {
	if m.Producer == nil {
		return
	}
	p := q.findProducer(m.Producer)
	if p == nil {
		p = &producer{id: *m.Producer}
		q.producers.byID[p.id] = p
	} else {
		q.producers.unlink(p)
	}
	q.producers.append(p)
	p.last, p.used = m.ProducerSeq, q.now
	if !stored {
		if len(p.refused) == MaxProducerRefusals {
			p.refused = slices.Delete(p.refused, 0, 1)
		}
		p.refused = append(p.refused, m.ProducerSeq)
	}
	q.forgetProducers()
}

// findProducer looks at the newest one first: messages of a producer come in runs.
func (q *Queue) findProducer(id *ProducerID) *producer {
	if p := q.producers.newest; p != nil && p.id == *id {
		return p
	}
	return q.producers.byID[*id]
}

func (q *Queue) forgetProducers() {
	ps := &q.producers
	for p := ps.oldest; p != nil; p = ps.oldest {
		if len(ps.byID) <= MaxProducers && after(p.used, ProducerRetentionMs) > q.now {
			return
		}
		ps.unlink(p)
		delete(ps.byID, p.id)
	}
}

func (ps *producers) append(p *producer) {
	p.older, p.newer = ps.newest, nil
	if ps.newest != nil {
		ps.newest.newer = p
	} else {
		ps.oldest = p
	}
	ps.newest = p
}

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

// putProducers writes them from the one that has been silent for longest.
func (q *Queue) putProducers(b []byte) []byte {
	b = putU(b, uint64(len(q.producers.byID)))
	used := Time(0)
	for p := q.producers.oldest; p != nil; p = p.newer {
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

func (q *Queue) takeProducers(r *reader) {
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
		r.check(seq <= p.last && q.producers.byID[p.id] == nil, errUnordered)
		if r.err != nil {
			return
		}
		q.producers.byID[p.id] = p
		q.producers.append(p)
	}
}

func (q *Queue) checkProducers() error {
	n, used := 0, Time(0)
	for p := q.producers.oldest; p != nil; p = p.newer {
		n++
		switch {
		case q.producers.byID[p.id] != p:
			return inv("producer %x is not known by its id", p.id)
		case p.used < used || p.used > q.now:
			return inv("producer %x spoke at %d, the one before at %d, now %d", p.id, p.used, used, q.now)
		case len(p.refused) > MaxProducerRefusals:
			return inv("producer %x has %d refusals", p.id, len(p.refused))
		}
		used = p.used
	}
	if n != len(q.producers.byID) || n > MaxProducers {
		return inv("%d producers in order, %d by id", n, len(q.producers.byID))
	}
	return nil
}
