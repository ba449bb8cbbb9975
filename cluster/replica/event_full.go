package replica

import (
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/event"
)

// fullEvery is the least time between two events about whether a queue is full: one at its
// limit may pass it with every message.
const fullEvery = time.Second

// fullness reports when a queue comes to its limit and when it has room again (LEN-7). The
// apply path alone uses seen; mu guards the rest.
type fullness struct {
	seen bool

	mu       sync.Mutex
	is       bool
	reported bool
	at       time.Time // of the last event
	waiting  bool      // a timer will look again
}

// lookFull compares with what was seen before, on the apply path of the leader.
func (q *Member) lookFull() {
	f := &q.full
	is := q.machine.queue.Full()
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
	time.AfterFunc(max(0, fullEvery-time.Since(f.at)), func() { q.box.post(q.reportFull) })
}

// reportFull reports, on a worker, what the queue has come to.
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
