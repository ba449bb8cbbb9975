package replica

import (
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/event"
)

// droppedEvery is the least time between two events, and lines of the log, about messages that a
// queue has dropped: every message of it may be one.
const droppedEvery = time.Minute

// dropping counts messages that failed too often and went nowhere, until that is reported. mu
// guards all.
type dropping struct {
	mu      sync.Mutex
	count   uint64
	at      time.Time // of the last event
	waiting bool      // a timer will report them
}

// dropped counts messages, on the apply path of the leader: the first ones are reported at once.
func (q *Member) dropped(n uint64) {
	d := &q.drop
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count += n
	if d.waiting {
		return
	}
	d.waiting = true
	time.AfterFunc(max(0, droppedEvery-time.Since(d.at)), func() { q.box.post(q.reportDropped) })
}

// reportDropped reports, on a worker, what was dropped since it last did. A leader that is none any
// more reports it too: nobody else knows.
func (q *Member) reportDropped() {
	d := &q.drop
	d.mu.Lock()
	n := d.count
	d.count, d.waiting, d.at = 0, false, time.Now()
	d.mu.Unlock()
	q.h.cfg.Events.EmitQueue(q.uid, event.Event{
		Kind: event.MessagesDropped, Count: n, Cause: "they failed more often than x-delivery-limit allows, and the queue has no dead-letter exchange",
	})
}
