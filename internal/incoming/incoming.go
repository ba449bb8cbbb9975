// Package incoming bounds the bytes of messages that a node is receiving. All protocols share one
// budget; each protocol divides its part among its connections by its own rules. A budget of its own
// bounds the answers that a node sends.
package incoming

import (
	"sync"
	"sync/atomic"
)

// DefaultBytes is the budget of a node without a memory limit.
const DefaultBytes = 256 << 20

// Budget bounds the bytes of incomplete messages that a node holds. All methods may be called
// concurrently. All but NotifyFreed and Limit may be called under the caller's locks; these two call the
// functions given to WhenFreed.
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

// Limit changes the budget, and calls NotifyFreed; 0: 256 MiB. It takes nothing back.
func (b *Budget) Limit(limit int64) {
	if limit == 0 {
		limit = DefaultBytes
	}
	b.limit.Store(limit)
	b.NotifyFreed()
}

// Bytes returns the budget.
func (b *Budget) Bytes() int64 { return b.limit.Load() }

// Take takes n bytes if the budget has room for them.
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

// Add takes n bytes even if they exceed the budget.
func (b *Budget) Add(n int64) { b.used.Add(n) }

// GiveBack gives n bytes back. The caller calls NotifyFreed afterwards.
func (b *Budget) GiveBack(n int64) { b.used.Add(-n) }

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// Wait records that n more connections wait for room; a negative n, that fewer do.
func (b *Budget) Wait(n int64) { b.waiting.Add(n) }

// Waiting returns how many connections wait for room.
func (b *Budget) Waiting() int64 { return b.waiting.Load() }

// Scarce reports whether a connection waits for room.
func (b *Budget) Scarce() bool { return b.waiting.Load() > 0 }

// WhenFreed registers f, which NotifyFreed calls after bytes were given back; f checks whether one of its
// connections now has room. Call it only while the node is constructed.
func (b *Budget) WhenFreed(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed = append(b.freed, f)
}

// NotifyFreed calls the registered functions. The caller holds no lock that they take.
func (b *Budget) NotifyFreed() {
	b.mu.Lock()
	all := b.freed
	b.mu.Unlock()
	for _, f := range all {
		f()
	}
}
