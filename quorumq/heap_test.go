package quorumq

import "testing"

// A heap frees the room that many entries took, and keeps its order.
func TestHeapShrinks(t *testing.T) {
	const n = 20 * roomyHeap
	var e heap[ordEntry]
	for i := range uint64(n) {
		e.push(ordEntry{at: Time(i * 7919 % n), ord: i})
	}
	for last := (ordEntry{}); len(e.entries) > 0; e.pop() {
		if e.entries[0].before(last) {
			t.Fatalf("%v comes after %v", e.entries[0], last)
		}
		last = e.entries[0]
		if c := cap(e.entries); c > roomyHeap && c > 8*(len(e.entries)+1) {
			t.Fatalf("it has room for %d entries and has %d", c, len(e.entries))
		}
	}
	if cap(e.entries) > roomyHeap {
		t.Errorf("it has room for %d entries and has none", cap(e.entries))
	}
}
