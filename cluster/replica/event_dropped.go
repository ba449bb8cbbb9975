package replica

import (
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/event"
)

// droppedEvery is the shortest interval between two events, or log lines, about messages that a
// queue has dropped. Otherwise every message of the queue could cause one.
const droppedEvery = time.Minute

// dropping counts messages that failed too often and were sent nowhere, until they are reported. mu
// guards all fields.
type dropping struct {
	mu      sync.Mutex
	count   uint64
	at      time.Time // of the last event
	waiting bool      // a timer will report them
}

// dropped counts messages, on the apply path of the leader. The first ones are reported at once.
func (q *Member) dropped(n uint64) {
	d := &q.drop
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count += n
	if d.waiting {
		return
	}
	d.waiting = true
	time.AfterFunc(max(0, droppedEvery-time.Since(d.at)), func() { q.box.Post(q.reportDropped) })
}

// reportDropped reports what was dropped since the last report. It runs on a worker. It reports
// even if this member no longer leads, because nobody else knows.
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
