package quorumq

// ranked is an element of a heap.
type ranked[T any] interface{ before(other T) bool }

// heap orders entries that refer to messages; the entry before all others is at the top. When a
// message leaves, its entry stays until it reaches the top, or until the owner of the heap finds
// too many such entries and rebuilds the heap.
type heap[T ranked[T]] struct{ entries []T }

// maxStale limits the entries without a message, beyond one for each message.
const maxStale = 1024

// roomyHeap is the capacity that a heap may keep, however few entries it has.
const roomyHeap = 1 << 14

// push adds an entry.
func (h *heap[T]) push(v T) {
	h.entries = append(h.entries, v)
	es := h.entries
	i := len(es) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !v.before(es[up]) {
			break
		}
		es[i] = es[up]
		i = up
	}
	es[i] = v
}

// pop removes the entry at the top.
func (h *heap[T]) pop() {
	n := len(h.entries) - 1
	last := h.entries[n]
	h.entries = h.entries[:n]
	if c := cap(h.entries); c > roomyHeap && n < c/8 {
		// The memory for a million messages is not kept for the few that come next.
		h.entries = append(make([]T, 0, c/4), h.entries...)
	}
	if n > 0 {
		h.sink(0, last)
	}
}

// sink puts v at i or below it.
func (h *heap[T]) sink(i int, v T) {
	es := h.entries
	for {
		down := 2*i + 1
		if down >= len(es) {
			break
		}
		if down+1 < len(es) && es[down+1].before(es[down]) {
			down++
		}
		if !es[down].before(v) {
			break
		}
		es[i] = es[down]
		i = down
	}
	es[i] = v
}

// order makes a heap of entries that were appended without order.
func (h *heap[T]) order() {
	for i := len(h.entries)/2 - 1; i >= 0; i-- {
		h.sink(i, h.entries[i])
	}
}

// first returns the first entry that still has its message, as there reports. It drops the entries
// before it.
func (h *heap[T]) first(there func(T) bool) (v T, ok bool) {
	for len(h.entries) > 0 {
		if there(h.entries[0]) {
			return h.entries[0], true
		}
		h.pop()
	}
	return v, false
}
