package replica

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/quorumq"
)

// paused are the consumers to which nothing is delivered before their gateway asks, for it
// has no room. mu guards the set.
type paused struct {
	count atomic.Int64 // of the set: every delivery asks

	mu    sync.Mutex
	set   map[quorumq.ConsumerKey]struct{}
	sweep int // the size at which consumers that are gone are looked for
}

// minSweep is how many consumers are held back before gone ones are looked for.
const minSweep = 64

// add keeps count in step with set, which readers look at first.
func (b *paused) add(c quorumq.ConsumerKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		b.set = map[quorumq.ConsumerKey]struct{}{}
	}
	b.set[c] = struct{}{}
	b.count.Store(int64(len(b.set)))
}

// remove keeps count in step with set, which readers look at first.
func (b *paused) remove(c quorumq.ConsumerKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.set, c)
	b.count.Store(int64(len(b.set)))
}

// holds takes no lock while nothing is paused, which is nearly always.
func (b *paused) holds(c quorumq.ConsumerKey) bool {
	if b.count.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, there := b.set[c]
	return there
}

// suspects returns all, once there are twice as many as when it was last: some may be gone.
func (b *paused) suspects() []quorumq.ConsumerKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.set) < max(b.sweep, minSweep) {
		return nil
	}
	b.sweep = 2 * len(b.set)
	return slices.Collect(maps.Keys(b.set))
}
