// Package incoming bounds the bytes of messages that a node is receiving, by whatever protocol they come: for all of them there is one
// budget, of which each protocol gives to its connections by rules of its own.
package incoming

import (
	"sync"
	"sync/atomic"
)

// DefaultBytes is the budget of a node without a limit of memory.
const DefaultBytes = 256 << 20

// Budget is how many bytes of messages that are not whole a node may hold. All methods may be called concurrently, also
// under locks of the callers; Tell and Limit are not, for they call those who wait.
type Budget struct {
	limit, used, waiting atomic.Int64

	mu    sync.Mutex // guards what follows
	freed []func()
}

// New returns a budget of so many bytes; 0: 256 MiB.
func New(limit int64) *Budget {
	b := &Budget{}
	b.Limit(limit)
	return b
}

// Limit changes the budget, and tells who may wait; 0: 256 MiB. What is held stays.
func (b *Budget) Limit(limit int64) {
	if limit == 0 {
		limit = DefaultBytes
	}
	b.limit.Store(limit)
	b.Tell()
}

// Bytes returns the budget.
func (b *Budget) Bytes() int64 { return b.limit.Load() }

// Take takes n bytes, if there are as many.
func (b *Budget) Take(n int64) bool {
	for {
		used := b.used.Load()
		if used+n > b.limit.Load() {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Add takes n bytes, whether there are as many or not.
func (b *Budget) Add(n int64) { b.used.Add(n) }

// GiveBack gives n bytes back. Who has done so calls Tell.
func (b *Budget) GiveBack(n int64) { b.used.Add(-n) }

// Used returns the bytes that are taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// Wait notes that n more wait for room; a negative number, that fewer do.
func (b *Budget) Wait(n int64) { b.waiting.Add(n) }

// Waiting returns how many wait for room.
func (b *Budget) Waiting() int64 { return b.waiting.Load() }

// Scarce reports whether somebody waits for room.
func (b *Budget) Scarce() bool { return b.waiting.Load() > 0 }

// WhenFreed has f called after bytes were given back, by whoever did so; f looks whether somebody who waits has room. It
// is called while the parts of a node are made.
func (b *Budget) WhenFreed(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed = append(b.freed, f)
}

// Tell calls whoever may wait. The caller holds no lock that they take.
func (b *Budget) Tell() {
	b.mu.Lock()
	all := b.freed
	b.mu.Unlock()
	for _, f := range all {
		f()
	}
}
