package quorumq

import (
	"cmp"
	"slices"
)

// BodyRun names bodies in Entries entries: the first entry is Index, and entries are Stride apart.
// In each entry it names Slots places, from Slot on. Stride is at least 1 if there are several
// entries.
type BodyRun struct {
	Index, Entries, Stride uint64
	Slot, Slots            uint32
}

func oneBody(r BodyRef) BodyRun { return BodyRun{Index: r.Index, Entries: 1, Slot: r.Slot, Slots: 1} }

func (r *BodyRun) first() BodyRef { return BodyRef{Index: r.Index, Slot: r.Slot} }

func (r *BodyRun) last() BodyRef {
	return BodyRef{Index: r.Index + (r.Entries-1)*r.Stride, Slot: r.Slot + r.Slots - 1}
}

// cut splits off what comes before a body, at least one body. The remainder is in at most two runs;
// a run with Entries 0 is empty.
func (r BodyRun) cut(at BodyRef) (before, rest, more BodyRun) {
	if r.last().Index < at.Index {
		return r, rest, more
	}
	if r.Index < at.Index {
		n := (at.Index - r.Index + r.Stride - 1) / r.Stride
		before, rest = r, r
		before.Entries, rest.Entries = n, r.Entries-n
		rest.Index += n * r.Stride
		return before, rest, more
	}
	before, more = r, r
	before.Entries = 1
	more.Entries--
	more.Index += r.Stride
	if n := at.Slot - r.Slot; at.Slot > r.Slot && n < r.Slots {
		rest = before
		before.Slots = n
		rest.Slot += n
		rest.Slots -= n
	}
	return before, rest, more
}

// appendRuns appends the bodies of a packed block, in its order. In all records the first two
// columns are index and slot.
func appendRuns(runs []BodyRun, packed []byte) []BodyRun {
	var places bitmap
	b, err := decodePlaces(packed, &places)
	if err != nil {
		panic(err) //nolint:forbidigo // these bytes were packed here, or checked by Restore
	}
	n := places.count()
	index := beginSteps(b, n)
	walk := index
	slot := beginSteps(walk.end(), n)
	for {
		r := BodyRun{Index: index.value, Entries: 1, Slot: narrow(slot.value), Slots: 1}
		index.load()
		slot.load()
		k := min(index.n, slot.n)
		switch {
		case k == 0:
			return append(runs, r)
		case index.delta == 0 && slot.delta == 1:
			r.Slots += uint32(k)
		case slot.delta == 0 && int64(index.delta) > 0 && k > 1:
			r.Entries, r.Stride = uint64(k), index.delta
			k--
		default:
			k = 0
		}
		runs = append(runs, r)
		index.advance(k)
		slot.advance(k)
		if index.left == 0 {
			return runs
		}
		index.load()
		slot.load()
		index.advance(1)
		slot.advance(1)
	}
}

// inOrder returns runs in the order of Live.
func inOrder(runs []BodyRun) []BodyRun {
	if slices.IsSortedFunc(runs, func(a, b BodyRun) int { return compareRefs(a.first(), b.last()) }) {
		return runs
	}
	var single []BodyRun
	for _, r := range runs {
		for i := range r.Entries {
			single = append(single, BodyRun{Index: r.Index + i*r.Stride, Entries: 1, Slot: r.Slot, Slots: r.Slots})
		}
	}
	slices.SortFunc(single, func(a, b BodyRun) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Slot, b.Slot))
	})
	return single
}

// runSource yields runs that ascend.
type runSource interface {
	next() (BodyRun, bool)
}

// blockRuns yields the bodies of blocks in which they ascend.
type blockRuns[T any] struct {
	blocks []*block[T]
	runs   []BodyRun
	at     int
}

// addMixed adds the bodies of blocks in which they mostly ascend. It sets the blocks apart in which
// they do not, and sorts their bodies.
func addMixed[T any](m *merge, blocks []*block[T]) {
	var ascending []*block[T]
	var rest, runs []BodyRun
	var last BodyRef
	for _, b := range blocks {
		runs = appendRuns(runs[:0], b.packed)
		if compareRefs(last, runs[0].first()) < 0 && ascends(runs) {
			ascending, last = append(ascending, b), runs[len(runs)-1].last()
		} else {
			rest = append(rest, runs...)
		}
	}
	m.add(&blockRuns[T]{blocks: ascending})
	m.add(&listedRuns{inOrder(rest)})
}

// ascends reports whether each run ends before the next begins.
func ascends(runs []BodyRun) bool {
	for i := 1; i < len(runs); i++ {
		if compareRefs(runs[i-1].last(), runs[i].first()) >= 0 {
			return false
		}
	}
	return true
}

// next unpacks the runs of a block when those of the previous one are used up.
func (s *blockRuns[T]) next() (BodyRun, bool) {
	for s.at == len(s.runs) {
		if len(s.blocks) == 0 {
			return BodyRun{}, false
		}
		s.runs, s.at = appendRuns(s.runs[:0], s.blocks[0].packed), 0
		s.blocks = s.blocks[1:]
	}
	s.at++
	return s.runs[s.at-1], true
}

// listedRuns yields runs from a list that ascends.
type listedRuns struct{ runs []BodyRun }

// next removes the first run of the list, and returns it.
func (s *listedRuns) next() (BodyRun, bool) {
	if len(s.runs) == 0 {
		return BodyRun{}, false
	}
	r := s.runs[0]
	s.runs = s.runs[1:]
	return r, true
}

// merge merges several sources into one order.
type merge struct{ heads []head }

// head is the next run of a source, and what remains after it from a cut.
type head struct {
	from runSource
	run  BodyRun
	more BodyRun // Entries 0: none
}

// advance moves on to what a cut has left, or else to the source's next run. It returns false at
// the end.
func (h *head) advance() bool {
	if h.more.Entries > 0 {
		h.run, h.more = h.more, BodyRun{}
		return true
	}
	var ok bool
	h.run, ok = h.from.next()
	return ok
}

// add adds a source, unless it has no runs.
func (m *merge) add(s runSource) {
	if h := (head{from: s}); h.advance() {
		m.heads = append(m.heads, h)
	}
}

// each yields the runs of all sources.
func (m *merge) each(yield func(BodyRun) bool) {
	for len(m.heads) > 0 {
		least, second := m.least()
		h := &m.heads[least]
		run := h.run
		if second >= 0 {
			var rest, more BodyRun
			run, rest, more = run.cut(m.heads[second].run.first())
			h.leave(rest, more)
		} else {
			h.leave(BodyRun{}, BodyRun{})
		}
		if !yield(run) {
			return
		}
		if h.run.Entries == 0 && !h.advance() {
			m.heads = slices.Delete(m.heads, least, least+1)
		}
	}
}

// leave records what remains of a run.
func (h *head) leave(rest, more BodyRun) {
	switch {
	case rest.Entries > 0 && more.Entries > 0:
		// Only a run that was not cut before is cut into three, so more is free.
		h.run, h.more = rest, more
	case rest.Entries > 0:
		h.run = rest
	default:
		h.run = more
	}
}

// least returns the positions of the lowest run and of the second lowest, -1 if there is only one.
func (m *merge) least() (first, second int) {
	first, second = 0, -1
	for i := 1; i < len(m.heads); i++ {
		switch {
		case compareRefs(m.heads[i].run.first(), m.heads[first].run.first()) < 0:
			first, second = i, first
		case second < 0 || compareRefs(m.heads[i].run.first(), m.heads[second].run.first()) < 0:
			second = i
		}
	}
	return first, second
}
