package quorumq

import "testing"

// A heap gives the room back that many entries took, and keeps its order.
func TestExpiriesShrink(t *testing.T) {
	const n = 20 * roomyHeap
	var e expiries[readyExpiry]
	for i := range uint64(n) {
		e.push(readyExpiry{at: Time(i * 7919 % n), ord: i})
	}
	for last := (readyExpiry{}); len(e.heap) > 0; e.pop() {
		if e.heap[0].before(last) {
			t.Fatalf("%v comes after %v", e.heap[0], last)
		}
		last = e.heap[0]
		if c := cap(e.heap); c > roomyHeap && c > 8*(len(e.heap)+1) {
			t.Fatalf("it has room for %d entries and has %d", c, len(e.heap))
		}
	}
	if cap(e.heap) > roomyHeap {
		t.Errorf("it has room for %d entries and has none", cap(e.heap))
	}
}
