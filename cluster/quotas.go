package cluster

import (
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
)

// storedFor is how long a sum over the queues of vhosts is used again.
const storedFor = 500 * time.Millisecond

// storedBytes are what the queues that this node leads hold of each vhost with a limit of it: one
// sum is for all who ask in a short time. mu guards the rest.
type storedBytes struct {
	mu sync.Mutex
	at time.Duration // of the monotonic clock
	of map[string]uint64
}

// StoredBytes returns what the queues of a vhost hold that this node leads, however they hold it; 0 if
// nothing bounds it. It may be half a second old.
func (c *Cluster) StoredBytes(vhost string) uint64 {
	v := c.View()
	if h, ok := v.VHost(vhost); !ok || h.MaxStoredBytes == catalog.Unlimited {
		return 0
	}
	s := &c.stored
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.clock.Elapsed()
	if n, known := s.of[vhost]; known && now-s.at < storedFor {
		return n
	}
	s.of, s.at = map[string]uint64{}, now
	for h := range v.VHosts() {
		if h.MaxStoredBytes != catalog.Unlimited {
			s.of[h.Name] = 0
		}
	}
	for uid, o := range c.LedFigures() {
		r, ok := v.QueueByUID(uid)
		if !ok {
			continue
		}
		if n, limited := s.of[r.VHost]; limited {
			s.of[r.VHost] = n + o.ReadyBytes + o.UnsettledBytes + o.DelayedBytes + o.BacklogBytes
		}
	}
	return s.of[vhost]
}

// EmitQuota tells that a quota bounds clients of this node, or does not any more. It does not wait.
func (c *Cluster) EmitQuota(e event.Event) {
	c.events.EmitNode(e)
	c.log.Info("event", "kind", string(e.Kind), "vhost", e.VHost, "name", e.Name, "cause", e.Cause, "detail", e.Detail, "count", e.Count)
}
