package replica

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/quorumq"
)

// paused holds the consumers to which nothing is delivered until their gateway asks, because it has
// no room. mu guards the set.
type paused struct {
	count atomic.Int64 // size of the set, read for every delivery

	mu    sync.Mutex
	set   map[quorumq.ConsumerKey]struct{}
	sweep int // the size at which to search for consumers that are gone
}

// minSweep is how many consumers must be in the set before a search for those that are gone.
const minSweep = 64

// add adds a consumer. It keeps count equal to the size of set, because readers check count first.
func (b *paused) add(c quorumq.ConsumerKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set == nil {
		b.set = map[quorumq.ConsumerKey]struct{}{}
	}
	b.set[c] = struct{}{}
	b.count.Store(int64(len(b.set)))
}

// remove removes a consumer. It keeps count equal to the size of set, because readers check count first.
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

// suspects returns all consumers if the set has doubled since the last search, because some may be
// gone.
func (b *paused) suspects() []quorumq.ConsumerKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.set) < max(b.sweep, minSweep) {
		return nil
	}
	b.sweep = 2 * len(b.set)
	return slices.Collect(maps.Keys(b.set))
}
