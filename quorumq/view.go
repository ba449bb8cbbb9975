package quorumq

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// Overview returns the figures of ST-1. It looks at each returned message.
func (q *Queue) Overview() Overview {
	s := &q.stats
	o := Overview{
		Ready:             uint64(q.readyLen()),
		Returned:          uint64(q.back.len()),
		Unsettled:         uint64(q.unsettled),
		Backlog:           uint64(q.backlog.len()),
		ReadyBytes:        q.readySize,
		UnsettledBytes:    q.unsettledBytes,
		BacklogBytes:      q.backlogBytes,
		Sessions:          len(q.order),
		Enqueued:          s.enqueued,
		Refused:           s.refused,
		Settled:           s.settled,
		Expired:           s.expired,
		Delivered:         s.delivered,
		Redelivered:       s.redelivered,
		ReturnedTotal:     s.returned,
		DeliveryLimitHits: s.limitHits,
		Dedup:             s.dedup,
		Repeats:           s.repeats,
		Confirmed:         s.confirmed,
		Discarded:         s.discarded,
		Full:              q.config.Overflow != OverflowDropHead && q.full(0),
		Now:               q.now,
		Config:            q.config,
	}
	for r := range o.DeadLettered {
		o.Dropped += s.discarded[DeadLetterDisabled][r]
		o.DeadLettered[r] = s.discarded[DeadLetterAtMostOnce][r] + s.discarded[DeadLetterAtLeastOnce][r]
	}
	for _, s := range q.order {
		for _, c := range s.consumers {
			if c.subscribes() {
				o.Consumers++
			}
		}
	}
	for _, n := range q.nodes {
		if n.next > 1 {
			o.Enqueuers++
		}
	}
	for l := range q.ready {
		o.ReadyByPriority[l] = uint64(q.ready[l].len())
		if m := q.ready[l].front(); m != nil {
			o.older(m)
		}
	}
	for r := range q.back.all() {
		o.ReadyByPriority[r.level()]++
		o.older(&r.message)
	}
	return o
}

func (o *Overview) older(m *message) {
	if o.OldestReady == 0 || m.at < o.OldestReady {
		o.OldestReady = m.at
	}
}

func compareRefs(a, b BodyRef) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Slot, b.Slot))
}

// Live yields every body that the state still refers to, in ascending order of Index
// and Slot, each once. The queue must not change meanwhile.
func (q *Queue) Live() iter.Seq[BodyRef] {
	return func(yield func(BodyRef) bool) {
		// Within a level bodies ascend; all others are sorted first, then merged in.
		others := q.otherRefs()
		m := merge{others: others}
		for l := range q.ready {
			if q.ready[l].len() > 0 {
				m.levels = append(m.levels, levelCursor{d: &q.ready[l]})
			}
		}
		for {
			r, ok := m.next()
			if !ok || !yield(r) {
				return
			}
		}
	}
}

// otherRefs returns the bodies outside the levels, sorted.
func (q *Queue) otherRefs() []BodyRef {
	refs := make([]BodyRef, 0, q.back.len()+q.unsettled+q.backlog.len()+len(q.annotations))
	for r := range q.back.all() {
		refs = append(refs, r.body())
	}
	for d := range q.backlog.all() {
		refs = append(refs, d.body())
	}
	for _, s := range q.order {
		for _, c := range s.consumers {
			for a := range c.held.all() {
				refs = append(refs, a.body())
			}
		}
	}
	for r := range q.annotations {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, compareRefs)
	return refs
}

// merge yields the bodies of several ascending sequences in ascending order.
type merge struct {
	levels []levelCursor
	others []BodyRef
}

type levelCursor struct {
	d *deque[message, *message]
	i int // position of the next one, a live one
}

func (m *merge) next() (BodyRef, bool) {
	best, from := BodyRef{}, -1
	if len(m.others) > 0 {
		best, from = m.others[0], len(m.levels)
	}
	for i := range m.levels {
		c := &m.levels[i]
		if r := c.d.at(c.i).body(); from < 0 || compareRefs(r, best) < 0 {
			best, from = r, i
		}
	}
	switch {
	case from < 0:
		return best, false
	case from == len(m.levels):
		m.others = m.others[1:]
	case !m.levels[from].step():
		m.levels = slices.Delete(m.levels, from, from+1)
	}
	return best, true
}

// step goes on to the next live message; false at the end.
func (c *levelCursor) step() bool {
	for c.i++; c.i < c.d.n; c.i++ {
		if !c.d.at(c.i).isRemoved() {
			return true
		}
	}
	return false
}

// occupiedLevels yields the levels that hold messages, ascending.
func (q *Queue) occupiedLevels() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := q.occupied; rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros32(rest)) {
				return
			}
		}
	}
}
