package cluster

import (
	"container/heap"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// timers wakes queues at the times that they ask for: one per queue, one goroutine for
// all. Times are those of this node's clock, with which its leaders stamp commands (C-1).
type timers struct {
	due func(id.QueueUID) // must not block

	mu    sync.Mutex // guards what follows
	heap  timerHeap
	where map[id.QueueUID]*timer
	wake  chan struct{} // of capacity 1: the first timer changed
}

type timer struct {
	queue id.QueueUID
	at    quorumq.Time
	place int // in the heap
}

func newTimers(due func(id.QueueUID)) *timers {
	return &timers{due: due, where: map[id.QueueUID]*timer{}, wake: make(chan struct{}, 1)}
}

// set replaces a queue's timer. It does not block.
func (t *timers) set(q id.QueueUID, at quorumq.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.where[q]
	if e == nil {
		e = &timer{queue: q, at: at}
		t.where[q] = e
		heap.Push(&t.heap, e)
	} else {
		e.at = at
		heap.Fix(&t.heap, e.place)
	}
	if e.place == 0 {
		t.signal()
	}
}

// at returns a queue's time, 0 if there is none.
func (t *timers) at(q id.QueueUID) quorumq.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.where[q]; e != nil {
		return e.at
	}
	return 0
}

// drop forgets a queue's timer.
func (t *timers) drop(q id.QueueUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.where[q]; e != nil {
		heap.Remove(&t.heap, e.place)
		delete(t.where, q)
	}
}

func (t *timers) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// maxTimerWait bounds one wait, so that a clock that was set is noticed.
const maxTimerWait = time.Second

// run wakes queues until stop is closed.
func (t *timers) run(stop <-chan struct{}) {
	clock := time.NewTimer(maxTimerWait)
	defer clock.Stop()
	for {
		now := quorumq.Time(time.Now().UnixMilli())
		wait, some := maxTimerWait, false
		for {
			q, at, ok := t.first()
			if ok && at <= now {
				t.drop(q)
				t.due(q)
				continue
			}
			if some = ok; ok {
				wait = min(wait, time.Duration(at-now)*time.Millisecond)
			}
			break
		}
		if clock.Stop(); some {
			clock.Reset(wait)
		}
		select {
		case <-clock.C:
		case <-t.wake:
		case <-stop:
			return
		}
	}
}

func (t *timers) first() (id.QueueUID, quorumq.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == 0 {
		return 0, 0, false
	}
	return t.heap[0].queue, t.heap[0].at, true
}

// timerHeap is ordered by time.
type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is of heap.Interface.
func (h *timerHeap) Push(x any) {
	e, ok := x.(*timer)
	if !ok {
		return
	}
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop is of heap.Interface.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
