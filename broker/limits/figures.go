package limits

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
)

// figures count, by scope and quota. mu guards told; the rest is atomic.
type figures struct {
	reached [scopes][gateQuotas]atomic.Uint64
	held    [scopes][gateQuotas]atomic.Int64 // nanoseconds
	refused [clients.CountKinds]atomic.Uint64
	waiting atomic.Int64

	mu   sync.Mutex
	told map[clients.Count]time.Duration // of refusals, for events
}

// maxTold bounds the refusals whose events are remembered.
const maxTold = 1000

// Refused counts a refusal of one more above a limit. Its event is emitted once in heldAgain.
func (l *Limits) Refused(k clients.Count, limit int64) {
	f, now := &l.figures, l.now()
	f.refused[k.Kind].Add(1)
	f.mu.Lock()
	last, known := f.told[k]
	if known = known && now-last < heldAgain; !known {
		if f.told == nil || len(f.told) >= maxTold {
			f.told = map[clients.Count]time.Duration{}
		}
		f.told[k] = now
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
	l.tell(event.QuotaReached, of, name, limit)
}

// Count is how often a quota was reached since the node's start, on this node (VH-14).
type Count struct {
	Scope, Quota string
	Reached      uint64        // refused, or times in which publishers were held back
	Held         time.Duration // of publishers, one after the other
}

// Counts returns the figures of all scopes and quotas, and how many publishers wait now.
func (l *Limits) Counts() (all []Count, waiting int64) {
	f := &l.figures
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
