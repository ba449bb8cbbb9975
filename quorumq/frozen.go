package quorumq

import (
	"iter"
	"slices"
)

// Frozen is the state of a queue at one moment. Only one goroutine uses it, but it need not be the
// queue's.
//
// It shares the blocks and windows of messages with the queue, which copies them before it changes
// them. Everything else was encoded at that moment.
type Frozen struct {
	rest     []byte
	windows  []window // of each consumer, in the order of the sessions
	occupied uint32
	mixed    uint32 // levels whose bodies do not ascend
	ready    [levels][]*block[message]
	back     []*block[returned]
	backlog  []*block[discarded]
	delayed  []*block[delayed]
	packed   bool // whether all blocks are
}

// Freeze returns the present state. It copies one pointer for each block of messages, and encodes
// everything else.
func (q *Queue) Freeze() *Frozen {
	f := q.share()
	q.subs.gen++
	q.backlog.pool.gen = q.subs.gen
	q.store.setGeneration(q.subs.gen)
	return f
}

// share is Freeze for a state that is used before the queue changes.
func (q *Queue) share() *Frozen {
	f := &Frozen{
		rest: q.putRest(nil), occupied: q.store.ready.occupied, mixed: q.store.ready.mixed,
		back:    slices.Clone(q.store.ready.returned.blocks[q.store.ready.returned.first:]),
		backlog: slices.Clone(q.backlog.set.blocks[q.backlog.set.first:]),
		delayed: slices.Clone(q.store.delays.set.blocks[q.store.delays.set.first:]),
	}
	for l := range q.store.ready.occupiedLevels() {
		f.ready[l] = slices.Clone(q.store.ready.levels[l].blocks[q.store.ready.levels[l].first:])
	}
	for c := range q.subs.order.consumers() {
		f.windows = append(f.windows, c.held)
	}
	return f
}

// AppendSnapshot appends the state; see Queue.AppendSnapshot.
func (f *Frozen) AppendSnapshot(b []byte) []byte {
	f.pack()
	b = append(b, f.rest...)
	for i := range f.windows {
		b = putWindow(b, &f.windows[i])
	}
	b = putU(b, uint64(f.occupied))
	for l := range f.ready {
		if f.occupied&(1<<l) != 0 {
			b = putBlocks(b, f.ready[l])
		}
	}
	b = putBlocks(b, f.back)
	b = putBlocks(b, f.backlog)
	return putBlocks(b, f.delayed)
}

// pack converts all blocks to their stored form; most of them have it already.
func (f *Frozen) pack() {
	if f.packed {
		return
	}
	f.packed = true
	var ready pool[message, *message]
	for l := range f.ready {
		f.ready[l] = packAll(&ready, f.ready[l], uint64(l))
	}
	f.back = packAll(new(pool[returned, *returned]), f.back, 0)
	f.backlog = packAll(new(pool[discarded, *discarded]), f.backlog, 0)
	f.delayed = packAll(new(pool[delayed, *delayed]), f.delayed, 0)
}

// Live yields every body that the state refers to, each once, ascending by index and, within an
// entry, by slot. Runs over several entries do not overlap.
func (f *Frozen) Live() iter.Seq[BodyRun] {
	f.pack()
	return func(yield func(BodyRun) bool) {
		var m merge
		for l := range f.ready {
			if f.mixed&(1<<l) != 0 {
				addMixed(&m, f.ready[l])
			} else {
				m.add(&blockRuns[message]{blocks: f.ready[l]})
			}
		}
		addMixed(&m, f.delayed)
		for _, runs := range [...][]BodyRun{f.heldRuns(), f.backRuns(), f.backlogRuns()} {
			m.add(&listedRuns{inOrder(runs)})
		}
		m.each(yield)
	}
}

// heldRuns returns the bodies of messages that consumers hold, and of all annotations.
func (f *Frozen) heldRuns() []BodyRun {
	var runs []BodyRun
	for i := range f.windows {
		for a := range f.windows[i].all() {
			runs = append(runs, oneBody(a.body()))
		}
	}
	for r := range f.annotations() {
		runs = append(runs, oneBody(r))
	}
	return runs
}

// annotations returns how many messages refer to each body of annotations.
func (f *Frozen) annotations() map[BodyRef]uint32 {
	f.pack()
	shared := make(map[BodyRef]uint32)
	for i := range f.windows {
		for a := range f.windows[i].all() {
			shared[a.annotations()]++
		}
	}
	eachPacked(f.back, 0, func(r *returned) { shared[r.annotations()]++ })
	eachPacked(f.backlog, 0, func(d *discarded) { shared[d.annotations()]++ })
	eachPacked(f.delayed, 0, func(d *delayed) { shared[d.annotations()]++ })
	delete(shared, BodyRef{})
	return shared
}

// checkBodies verifies that no body is referred to twice.
func (f *Frozen) checkBodies() error {
	var last BodyRun
	for r := range f.Live() {
		if last.Entries > 0 && compareRefs(last.last(), r.first()) >= 0 {
			return inv("body %v is referred to more than once", r.first())
		}
		last = r
	}
	return nil
}

// backRuns returns the bodies of the returned list.
func (f *Frozen) backRuns() (runs []BodyRun) {
	for _, b := range f.back {
		runs = appendRuns(runs, b.packed)
	}
	return runs
}

// backlogRuns returns the bodies of the backlog.
func (f *Frozen) backlogRuns() (runs []BodyRun) {
	for _, b := range f.backlog {
		runs = appendRuns(runs, b.packed)
	}
	return runs
}

// AppendSnapshot appends the whole state. Equal states give equal bytes. There is no checksum; the
// caller that stores the snapshot adds one.
func (q *Queue) AppendSnapshot(b []byte) []byte { return q.share().AppendSnapshot(b) }
