package quorumq

import (
	"cmp"
	"iter"
	"slices"
)

// window holds what one consumer holds, ascending by id. Ids ascend by one, so most are found at
// once by their distance from the first.
//
// Invariants: ids ascend; live counts the items that are not marked as removed; the first and the
// last item are live, except between a removal and tidy; there are at most a block more marks than
// live items.
//
// A frozen state shares the items. Before an item changes, own copies those of an older generation.
// The frozen state does not see items that are pushed after them.
type window struct {
	items []assigned // items[head:]; the first and the last of them are live
	head  int
	live  int
	gen   uint64
}

// own makes sure that the items may be changed in the present generation.
func (w *window) own(gen uint64) {
	if w.gen != gen {
		w.items, w.head, w.gen = slices.Clone(w.items[w.head:]), 0, gen
	}
}

// push adds an item with the newest id.
func (w *window) push(a assigned, gen uint64) {
	if len(w.items) == cap(w.items) && w.head > len(w.items)/2 && w.gen == gen {
		n := copy(w.items, w.items[w.head:])
		w.items, w.head = w.items[:n], 0
	}
	w.items = append(w.items, a)
	w.live++
}

// remove marks an item as removed; tidy must follow.
func (w *window) remove(a *assigned) {
	a.remove()
	w.live--
}

// search returns the first place in items whose id is at least m.
func (w *window) search(m MsgID) int {
	if w.live == 0 || m <= w.items[w.head].id {
		return w.head
	}
	guess := m - w.items[w.head].id
	if guess < MsgID(len(w.items)-w.head) && w.items[w.head+int(guess)].id == m {
		return w.head + int(guess)
	}
	i, _ := slices.BinarySearchFunc(w.items[w.head:], m, func(a assigned, m MsgID) int {
		return cmp.Compare(a.id, m)
	})
	return w.head + i
}

// tidy restores the invariants after items were marked. The caller must own the items.
func (w *window) tidy() {
	if w.live == 0 {
		w.items, w.head = w.items[:0], 0
		if cap(w.items) > 2*MaxOutstanding {
			w.items = nil
		}
		return
	}
	for w.items[w.head].isRemoved() {
		w.head++
	}
	for w.items[len(w.items)-1].isRemoved() {
		w.items = w.items[:len(w.items)-1]
	}
	if len(w.items)-w.head > 2*w.live+blockLen {
		w.items = append(w.items[:0], slices.DeleteFunc(w.items[w.head:], func(a assigned) bool { return a.isRemoved() })...)
		w.head = 0
	}
}

// all yields what the consumer holds, in order.
func (w *window) all() iter.Seq[*assigned] {
	return func(yield func(*assigned) bool) {
		for i := w.head; i < len(w.items); i++ {
			if a := &w.items[i]; !a.isRemoved() && !yield(a) {
				return
			}
		}
	}
}

// holds reports whether every message of the ranges is held. Ranges that overlap name a message
// twice, which is not held a second time, so the answer is false.
func (w *window) holds(ranges []MsgIDRange) bool {
	seen := make(map[MsgID]bool)
	for _, r := range ranges {
		next := r.First
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			a := &w.items[i]
			if a.isRemoved() || a.id != next || seen[a.id] {
				return false
			}
			seen[a.id] = true
			next++
		}
		if next != r.Last+1 {
			return false
		}
	}
	return true
}

// putWindow writes what a consumer holds, each message as differences from the previous one.
func putWindow(b []byte, w *window) []byte {
	b = putU(b, uint64(w.live))
	var prev assigned
	for a := range w.all() {
		b = putU(putU(b, uint64(a.id-prev.id)), a.number)
		b = putZ(b, int64(a.ord-prev.ord))
		b = putZ(b, int64(a.index-prev.index))
		b = putU(putU(b, uint64(a.slot)), uint64(a.size))
		b = putZ(b, int64(a.at-prev.at))
		b = putLimit(b, a.ttl)
		b = putU(putU(b, a.annIndex), uint64(a.annSlot))
		b = putU(putU(b, uint64(a.failures)), uint64(a.acquired))
		b = putZ(b, int64(a.due-prev.due))
		prev = *a
	}
	return b
}

// restoreWindow reads what a consumer holds from a snapshot, and calls each with each message. No
// deadline may be before due (0: there are none).
func restoreWindow(r *reader, due Time, each func(*assigned)) {
	var prev assigned
	for range r.count(12) {
		more := MsgID(r.u())
		r.check(more > 0 && prev.id+more > prev.id, errUnordered)
		a := assigned{id: prev.id + more, number: r.u()}
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
			r.check(a.due == 0 || a.due > 0 && 0 < due && due <= a.due, errRange)
		}
		r.check(a.size != VoidSize, errRange)
		if r.err != nil {
			return
		}
		each(&a)
		prev = a
	}
}

// ascending returns ranges in ascending order. It copies them, to scratch, only if they are not.
func ascending(rs []MsgIDRange, scratch *[]MsgIDRange) []MsgIDRange {
	byFirst := func(a, b MsgIDRange) int { return cmp.Compare(a.First, b.First) }
	if slices.IsSortedFunc(rs, byFirst) {
		return rs
	}
	*scratch = append((*scratch)[:0], rs...)
	slices.SortFunc(*scratch, byFirst)
	return *scratch
}
