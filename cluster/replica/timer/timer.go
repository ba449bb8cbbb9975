// Package timer wakes the queues of a host at the times that they ask for, on one goroutine. It has one timer for each
// queue at most.
package timer

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/quorumq"
)

// Timers wakes queues at the times that they ask for. There is one timer per queue and one
// goroutine for all. A queue asks in its own time, with which its commands are stamped, but is
// woken by the cluster's time; so it checks whether its own time has come (TTL-6).
type Timers struct {
	now func() int64                         // the time of the cluster, ms since the Unix epoch
	due func(q id.QueueUID, at quorumq.Time) // must not block
	// onTimeSet is called when the cluster's time was set, so that timers that depend on it can be set
	// again. It may call Set.
	onTimeSet func()

	mu       sync.Mutex // guards what follows
	heap     timerHeap
	where    map[id.QueueUID]*timer
	wake     chan struct{} // of capacity 1: the first timer has changed
	timeSets chan struct{} // of capacity 1: the cluster's time was set
}

// timer is the earliest deadline of a queue that is led here.
type timer struct {
	queue id.QueueUID
	at    quorumq.Time // by the queue's time; 0: the queue hibernates, and nobody knows its time
	due   int64        // by the time of the cluster, ms since the Unix epoch
	by    time.Time    // the same by this machine's clock, if at is 0
	place int          // in the heap
}

// New returns an empty set. due is called without a lock.
func New(now func() int64, due func(id.QueueUID, quorumq.Time), onTimeSet func()) *Timers {
	return &Timers{
		now: now, due: due, onTimeSet: onTimeSet,
		where: map[id.QueueUID]*timer{}, wake: make(chan struct{}, 1), timeSets: make(chan struct{}, 1),
	}
}

// Set replaces a queue's timer. It does not block.
func (t *Timers) Set(q id.QueueUID, at quorumq.Time, due int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(q, at, due)
}

// Again sets a queue's timer, unless the queue has asked for another time meanwhile.
func (t *Timers) Again(q id.QueueUID, at quorumq.Time, due int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.where[q]; e == nil || e.at == at {
		t.put(q, at, due)
	}
}

// put sets a queue's timer. mu is held.
func (t *Timers) put(q id.QueueUID, at quorumq.Time, due int64) {
	e := t.where[q]
	if e == nil {
		e = &timer{queue: q, at: at, due: due}
		t.where[q] = e
		heap.Push(&t.heap, e)
	} else {
		e.at, e.due = at, due
		heap.Fix(&t.heap, e.place)
	}
	if at == 0 {
		e.by = time.Now().Add(Until(due, t.now()))
	}
	if e.place == 0 {
		t.signal()
	}
}

// At returns when a queue will be woken, in its own time and in the cluster's; 0 if it will not.
func (t *Timers) At(q id.QueueUID) (at quorumq.Time, due int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.where[q]; e != nil {
		return e.at, e.due
	}
	return 0, 0
}

// SetBack keeps the queues that hibernate from waking later because the cluster's time was set back. Where it was set
// forward, they wake by the new time, as queues do that have a leader.
func (t *Timers) SetBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.where {
		if e.at != 0 {
			continue
		}
		if due := t.now() + time.Until(e.by).Milliseconds(); due < e.due {
			e.due = due
			heap.Fix(&t.heap, e.place)
		}
	}
}

// TimeSet makes Run call onTimeSet, because the cluster's time was set. It does not block.
func (t *Timers) TimeSet() { wait.Wake(t.timeSets) }

// Drop forgets a queue's timer.
func (t *Timers) Drop(q id.QueueUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.where[q]; e != nil {
		heap.Remove(&t.heap, e.place)
		delete(t.where, q)
	}
}

func (t *Timers) signal() { wait.Wake(t.wake) }

// maxTimerWait limits one wait, because the cluster's time may advance a little faster than a
// timer.
const maxTimerWait = time.Second

// Run wakes queues until stop is closed.
func (t *Timers) Run(stop <-chan struct{}) {
	clock := time.NewTimer(maxTimerWait)
	defer clock.Stop()
	for {
		now := t.now()
		wait, some := maxTimerWait, false
		for {
			first, ok := t.first()
			if ok && first.due <= now {
				t.Drop(first.queue)
				t.due(first.queue, first.at)
				continue
			}
			if some = ok; ok {
				wait = min(wait, Until(first.due, now))
			}
			break
		}
		if clock.Stop(); some {
			clock.Reset(wait)
		}
		select {
		case <-clock.C:
		case <-t.wake:
		case <-t.timeSets:
			t.onTimeSet()
		case <-stop:
			return
		}
	}
}

// first returns a copy, because the timer may be moved meanwhile.
func (t *Timers) first() (timer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == 0 {
		return timer{}, false
	}
	return *t.heap[0], true
}

// Until returns the time from now to a later time, both in milliseconds.
func Until(at, now int64) time.Duration {
	return time.Duration(min(max(at-now, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// timerHeap is ordered by time.
type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	e, ok := x.(*timer)
	if !ok {
		return
	}
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
