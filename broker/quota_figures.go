package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
)

// quotaFigures count, by scope and quota.
type quotaFigures struct {
	reached [connections.Scopes][gateQuotas]atomic.Uint64
	held    [connections.Scopes][gateQuotas]atomic.Int64 // nanoseconds
	refused [clients.CountKinds]atomic.Uint64
	waiting atomic.Int64

	mu   sync.Mutex
	told map[clients.Count]time.Duration // of refusals, for events
}

// maxTold bounds the refusals whose events are remembered.
const maxTold = 1000

// Refused counts a refusal, and tells of it now and then.
func (q *quotas) Refused(k clients.Count, limit int64) {
	f, now := &q.figures, q.now()
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
	scope, name := connections.LimitOf(k.Kind)
	switch scope {
	case connections.ScopeUser:
		of.User = k.Name
	case connections.ScopeVHost:
		of.VHost = k.Name
	}
	q.tell(event.QuotaReached, of, name, limit)
}

// QuotaCount is how often a quota was reached since the node's start, on this node (VH-14).
type QuotaCount struct {
	Scope, Quota string
	Reached      uint64        // refused, or times in which publishers were held back
	Held         time.Duration // of publishers, one after the other
}

// QuotaCounts returns the figures of all scopes and quotas, and how many publishers wait now.
func (b *Broker) QuotaCounts() (all []QuotaCount, waiting int64) {
	f := &b.quotas.figures
	for scope := range f.reached {
		for which := range f.reached[scope] {
			if which == storedQuota && scope == connections.ScopeQueue {
				continue
			}
			all = append(all, QuotaCount{
				connections.ScopeName(scope), quotaName(which), f.reached[scope][which].Load(), time.Duration(f.held[scope][which].Load()),
			})
		}
	}
	for k := range f.refused {
		scope, limit := connections.LimitOf(clients.CountKind(k))
		all = append(all, QuotaCount{Scope: connections.ScopeName(scope), Quota: limit, Reached: f.refused[k].Load()})
	}
	return all, f.waiting.Load()
}
