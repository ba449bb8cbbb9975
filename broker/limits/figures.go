package limits

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
)

// figures counts what limits do, by scope and quota, and emits their events. mu guards emitted; all other fields are
// atomic or never change.
type figures struct {
	start time.Time
	view  func() *catalog.View
	emit  func(event.Event)

	reached [scopes][gateQuotas]atomic.Uint64
	held    [scopes][gateQuotas]atomic.Int64 // nanoseconds
	refused [clients.CountKinds]atomic.Uint64
	waiting atomic.Int64

	mu      sync.Mutex
	emitted map[clients.Count]time.Duration // when the event of a refusal was last emitted
}

const (
	// maxEmitted limits how many entries emitted has.
	maxEmitted = 1000
	// heldAgain is how long no publisher must have been held back before the event quota_over is emitted. Without it
	// every message could cause an event.
	heldAgain = 10 * time.Second
)

// now returns the time since the node's start, from the monotonic clock.
func (f *figures) now() time.Duration { return time.Since(f.start) }

// emitQuota emits the event that a quota is reached or no longer is. It emits none for a queue that has been deleted.
func (f *figures) emitQuota(kind event.Kind, of clients.QuotaSubject, limit string, n int64) {
	e := event.Event{Kind: kind, Cause: limit, Count: uint64(max(0, n))}
	scope := scopeOf(of)
	e.Detail = scope.String()
	switch scope {
	case ScopeUser:
		e.Name = of.User
	case ScopeVHost:
		e.VHost, e.Name = of.VHost, of.VHost
	case ScopeQueue:
		r, ok := f.view().QueueByUID(of.Queue)
		if !ok {
			return
		}
		e.VHost, e.Name = r.VHost, r.Name
	}
	f.emit(e)
}

// Refused counts a refusal of one more than a limit allows. It emits at most one event in heldAgain for each limit.
func (f *figures) Refused(k clients.Count, limit int64) {
	now := f.now()
	f.refused[k.Kind].Add(1)
	f.mu.Lock()
	last, known := f.emitted[k]
	if known = known && now-last < heldAgain; !known {
		if f.emitted == nil || len(f.emitted) >= maxEmitted {
			f.emitted = map[clients.Count]time.Duration{}
		}
		f.emitted[k] = now
	}
	f.mu.Unlock()
	if known {
		return
	}
	of := clients.QuotaSubject{Queue: k.Queue}
	scope, name := OfCount(k.Kind)
	switch scope {
	case ScopeUser:
		of.User = k.Name
	case ScopeVHost:
		of.VHost = k.Name
	case ScopeQueue:
	}
	f.emitQuota(event.QuotaReached, of, name, limit)
}

// Count is how often a quota was reached on this node since its start (VH-14).
type Count struct {
	Scope, Quota string
	Reached      uint64        // refusals, or how often publishers were held back
	Held         time.Duration // how long publishers were held back, all of them added up
}

// Counts returns the figures of all scopes and quotas, and how many publishers are being held back.
func (f *figures) Counts() (all []Count, waiting int64) {
	for scope := range f.reached {
		for which := range f.reached[scope] {
			if which == storedQuota && Scope(scope) == ScopeQueue {
				continue
			}
			all = append(all, Count{
				Scope(scope).String(), quotaName(which), f.reached[scope][which].Load(), time.Duration(f.held[scope][which].Load()),
			})
		}
	}
	for k := range f.refused {
		scope, limit := OfCount(clients.CountKind(k))
		all = append(all, Count{Scope: scope.String(), Quota: limit, Reached: f.refused[k].Load()})
	}
	return all, f.waiting.Load()
}
