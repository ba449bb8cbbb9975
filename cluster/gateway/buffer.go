package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/cluster/traffic"
)

// Buffer bounds the bytes of messages that consumers of one client have handed over and the
// client has not taken. When it is full its consumers ask their queues for nothing more;
// once it is half empty they go on, each with its share of the room. A message that finds any
// room at all is let in, so that each can pass; those with auto-ack always are, for their
// queue has given them up already.
//
// All methods may be called concurrently; the state belongs to mu.
type Buffer struct {
	limit int64
	stats *BufferStats

	mu      sync.Mutex
	held    int64
	waiting map[*Consumer]struct{}
}

// BufferStats are the figures of several buffers.
type BufferStats struct {
	// Held is how many bytes they hold; Stops counts how often a consumer had to wait.
	Held  atomic.Int64
	Stops atomic.Uint64
}

// NewBuffer returns a buffer of so many bytes that counts into s.
func NewBuffer(limit int64, s *BufferStats) *Buffer {
	return &Buffer{limit: limit, stats: s, waiting: map[*Consumer]struct{}{}}
}

// admit lets a message in if there is room, or it must be.
func (b *Buffer) admit(size int64, must bool) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !must && b.held >= b.limit {
		return false
	}
	b.held += size
	b.stats.Held.Add(size)
	return true
}

// room is how many bytes may be asked for; traffic.NoRoomLimit without a buffer.
func (b *Buffer) room() int64 {
	if b == nil {
		return traffic.NoRoomLimit
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.limit-b.held)
}

// await has the consumer called when there is room again, unless there is now.
func (b *Buffer) await(c *Consumer) (waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if 2*b.held <= b.limit {
		return false
	}
	b.waiting[c] = struct{}{}
	b.stats.Stops.Add(1)
	return true
}

// forget calls the consumer no more.
func (b *Buffer) forget(c *Consumer) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, c)
}

// Release reports that so many bytes of deliveries were taken, or are given up. The caller
// holds no lock that a consumer's Deliver takes.
func (b *Buffer) Release(size int64) {
	b.mu.Lock()
	b.held -= size
	b.stats.Held.Add(-size)
	if len(b.waiting) == 0 || 2*b.held > b.limit {
		b.mu.Unlock()
		return
	}
	woken := b.waiting
	b.waiting = map[*Consumer]struct{}{}
	share := max(1, (b.limit-b.held)/int64(len(woken)))
	b.mu.Unlock()
	for c := range woken {
		c.roomAgain(share)
	}
}
