package broker

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/broker/failure"
)

// Alarm is why this node takes no messages from its clients for a while (PUB-10). Consuming
// and settling go on, since they are what makes room.
type Alarm struct {
	// Reason names what is short, and the remedy.
	Reason string
	ended  chan struct{}
}

// Ended returns a channel that is closed when the alarm is over.
func (a *Alarm) Ended() <-chan struct{} { return a.ended }

// alarms is the alarm of the moment; Alarm is asked for with each publish.
type alarms struct {
	mu  sync.Mutex // held to change now
	now atomic.Pointer[Alarm]
}

// Alarm returns the alarm of the moment, nil if there is none. Listeners hold publishers back
// while there is one; what was handed to Publish is published nevertheless.
func (b *Broker) Alarm() *Alarm { return b.alarms.now.Load() }

// RaiseAlarm holds this node's publishers back for a reason until EndAlarm. A second reason
// replaces the first.
func (b *Broker) RaiseAlarm(reason string) {
	a := &b.alarms
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.now.Load()
	if was != nil && was.Reason == reason {
		return
	}
	next := &Alarm{Reason: reason, ended: make(chan struct{})}
	if was != nil {
		next.ended = was.ended
	} else {
		b.clients.Counters.PublishersHeld.Add(1)
		b.log.Warn("publishers are held back", "reason", reason)
	}
	a.now.Store(next)
}

// EndAlarm lets publishers go on.
func (b *Broker) EndAlarm() {
	a := &b.alarms
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.now.Swap(nil); was != nil {
		close(was.ended)
		b.log.Info("publishers may go on")
	}
}

// Room returns why a queue takes no messages for want of disk space, as ResourceExhausted;
// nil if it takes some, or does not exist. It makes no call: nodes send one another the state of their disks.
func (b *Broker) Room(vhost, queue string) error {
	c := b.cluster
	q, ok := c.View().Queue(vhost, queue)
	if !ok {
		return nil
	}
	return failure.Translate(c.Room(q.UID), failure.Error{VHost: vhost, Kind: "queue", Name: queue})
}
