package replica

import (
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/event"
)

// fullEvery is the shortest interval between two events about whether a queue is full. A queue at
// its limit may cross the limit with every message.
const fullEvery = time.Second

// fullness is used to report when a queue reaches its limit and when it has room again (LEN-7).
// Only the apply path uses seen; mu guards the rest.
type fullness struct {
	seen bool

	mu       sync.Mutex
	is       bool
	reported bool
	at       time.Time // of the last event
	waiting  bool      // a timer will check again
}

// said reports whether the last event reported the queue as full.
func (f *fullness) said() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reported
}

// lookFull compares the queue with its last seen state, on the apply path of the leader.
func (q *Member) lookFull() {
	f := &q.full
	is := q.machine.Queue().Full()
	if is == f.seen {
		return
	}
	f.seen = is
	f.mu.Lock()
	defer f.mu.Unlock()
	f.is = is
	if f.waiting {
		return
	}
	f.waiting = true
	time.AfterFunc(max(0, fullEvery-time.Since(f.at)), func() { q.box.Post(q.reportFull) })
}

// reportFull reports whether the queue is full, if that has changed. It runs on a worker.
func (q *Member) reportFull() {
	f := &q.full
	f.mu.Lock()
	is, changed := f.is, f.is != f.reported
	f.waiting, f.reported = false, is
	if changed {
		f.at = time.Now()
	}
	f.mu.Unlock()
	if !changed || q.led.Load() == nil {
		return
	}
	kind := event.QueueNotFull
	if is {
		kind = event.QueueFull
	}
	q.h.cfg.Events.EmitQueue(q.uid, event.Event{Kind: kind})
}
