package quorumq

// ranked is what a heap of expiries holds.
type ranked[T any] interface{ before(other T) bool }

// expiries is a heap by (expiry, enqueue ordinal) (TTL-5). An entry whose message has
// left stays until it comes to the top, or until tidy finds too many of them.
type expiries[T ranked[T]] struct{ heap []T }

func (e *expiries[T]) push(v T) {
	e.heap = append(e.heap, v)
	h := e.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !v.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = v
}

func (e *expiries[T]) pop() {
	n := len(e.heap) - 1
	last := e.heap[n]
	e.heap = e.heap[:n]
	if c := cap(e.heap); c > roomyHeap && n < c/8 {
		// What a million messages left behind is not kept for the few that come next.
		e.heap = append(make([]T, 0, c/4), e.heap...)
	}
	if n > 0 {
		e.sink(0, last)
	}
}

// roomyHeap is how many entries a heap may have room for, however few it has.
const roomyHeap = 1 << 14

// sink puts v at i or below.
func (e *expiries[T]) sink(i int, v T) {
	h := e.heap
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(v) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = v
}

// order makes a heap of entries that were appended without order.
func (e *expiries[T]) order() {
	for i := len(e.heap)/2 - 1; i >= 0; i-- {
		e.sink(i, e.heap[i])
	}
}

// first returns the first entry that still has its message, as there tells; it drops those
// in front that have none.
func (e *expiries[T]) first(there func(T) bool) (v T, ok bool) {
	for len(e.heap) > 0 {
		if there(e.heap[0]) {
			return e.heap[0], true
		}
		e.pop()
	}
	return v, false
}
