package broker

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// Alarm is why this node takes no messages from its clients for a while (PUB-10). Clients can still consume and
// settle, because that makes room.
type Alarm struct {
	// Reason names the shortage and its remedy.
	Reason string
	ended  chan struct{}
}

// Ended returns a channel that is closed when the alarm is over.
func (a *Alarm) Ended() <-chan struct{} { return a.ended }

// Alarms holds the current alarm of this node, if there is one. All methods may be called concurrently.
type Alarms struct {
	raised *atomic.Uint64 // how often an alarm was raised
	log    *slog.Logger

	mu  sync.Mutex // held while now is being changed
	now atomic.Pointer[Alarm]
}

// Now returns the current alarm, or nil. During an alarm, listeners hold publishers back; a message that has reached
// Publish is still published. Now takes no lock, because every publish calls it.
func (a *Alarms) Now() *Alarm { return a.now.Load() }

// Raise holds this node's publishers back until End is called. If there is an alarm already, Raise replaces its reason.
func (a *Alarms) Raise(reason string) {
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
		a.raised.Add(1)
		a.log.Warn("publishers are held back", "reason", reason)
	}
	a.now.Store(next)
}

// End lets publishers go on.
func (a *Alarms) End() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.now.Swap(nil); was != nil {
		close(was.ended)
		a.log.Info("publishers may go on")
	}
}
