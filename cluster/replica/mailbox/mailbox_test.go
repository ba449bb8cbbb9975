package mailbox

import (
	"slices"
	"sync/atomic"
	"testing"
)

// effects are numbers in this test.
type effects []int

// A mailbox does its tasks in order and one at a time, including those posted before start. A
// closed mailbox accepts no task.
func TestMailbox(t *testing.T) {
	w := Start(4)
	var boxes []*Box[effects]
	var done [8][]int
	var busy [8]atomic.Bool
	for b := range done {
		boxes = append(boxes, New(w, func(e *effects) { done[b] = append(done[b], *e...) }))
	}
	const each = 1000
	post := func(i int) {
		for b, m := range boxes {
			if i%3 == 0 {
				m.Gather(func(e *effects, _ int) int {
					*e = append(*e, i)
					return 1
				})
				continue
			}
			m.Post(func() {
				if busy[b].Swap(true) {
					t.Error("two tasks of a mailbox at a time")
				}
				done[b] = append(done[b], i)
				busy[b].Store(false)
			})
		}
	}
	for i := range each {
		if i == 10 {
			for _, m := range boxes {
				m.Start()
			}
		}
		post(i)
	}
	for _, m := range boxes {
		m.Close()
		if m.Post(func() { t.Error("done after close") }) {
			t.Error("a closed mailbox took a task")
		}
	}
	w.Close()
	for b := range done {
		if len(done[b]) != each || !slices.IsSorted(done[b]) {
			t.Errorf("mailbox %d did %d tasks, sorted %v", b, len(done[b]), slices.IsSorted(done[b]))
		}
	}
}
