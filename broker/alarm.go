package broker

import (
	"log/slog"
	"sync"
	"sync/atomic"
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

// Alarms has the alarm of the moment. All methods may be called concurrently.
type Alarms struct {
	raised *atomic.Uint64 // how often
	log    *slog.Logger

	mu  sync.Mutex // held to change now
	now atomic.Pointer[Alarm]
}

// Now returns the alarm of the moment, nil if there is none. Listeners hold publishers back
// while there is one; what was handed to Publish is published nevertheless. It takes no lock: each publish asks.
func (a *Alarms) Now() *Alarm { return a.now.Load() }

// Raise holds this node's publishers back for a reason until End. A second reason replaces the
// first.
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
