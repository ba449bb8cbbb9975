package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// space is what a consumer knows about the room for its deliveries. Deliveries for which there is
// no room are dropped, and fetched later by a resume, which states how many bytes the queue may send. From then on
// the queue sends nothing by itself until it has answered a resume in full.
type space struct {
	short bool          // deliveries were left out
	waits bool          // until its buffer calls roomAgain
	seen  quorumq.MsgID // the newest delivery that was left out
	share int64         // how much the next resume asks for; 0: as much as fits
}

// Buffer limits the bytes of messages that the consumers of one client have delivered and the
// client has not yet read. When it is full, its consumers ask their queues for nothing more; once
// it is half empty they continue, each with a share of the room. A message is accepted if there is
// any room, so that messages of any size can pass. Messages with auto-ack are always accepted,
// because their queue has already removed them.
//
// All methods may be called concurrently; the state belongs to mu.
type Buffer struct {
	limit int64
	stats *BufferStats

	mu      sync.Mutex
	held    int64
	waiting map[*space]func(share int64) // what to call when there is room
}

// BufferStats are the statistics of several buffers.
type BufferStats struct {
	// Held is the number of bytes in the buffers; Stops counts how often a consumer had to wait.
	Held  atomic.Int64
	Stops atomic.Uint64
}

// NewBuffer returns a buffer with a limit in bytes; s counts its use.
func NewBuffer(limit int64, s *BufferStats) *Buffer {
	return &Buffer{limit: limit, stats: s, waiting: map[*space]func(int64){}}
}

// admit accepts a message if there is room, or if must is set.
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

// room returns how many bytes may be requested; traffic.NoRoomLimit without a buffer.
func (b *Buffer) room() int64 {
	if b == nil {
		return traffic.NoRoomLimit
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.limit-b.held)
}

// await arranges that again is called, once, when there is room for a consumer. If there is room
// already, it returns false and does nothing.
func (b *Buffer) await(s *space, again func(share int64)) (waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if 2*b.held <= b.limit {
		return false
	}
	b.waiting[s] = again
	b.stats.Stops.Add(1)
	return true
}

// forget makes sure that nothing more is called for a consumer.
func (b *Buffer) forget(s *space) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, s)
}

// Release frees the bytes of deliveries that were read or dropped. The caller must not hold a lock
// that a consumer's Deliver takes.
func (b *Buffer) Release(size int64) {
	b.mu.Lock()
	b.held -= size
	b.stats.Held.Add(-size)
	if len(b.waiting) == 0 || 2*b.held > b.limit {
		b.mu.Unlock()
		return
	}
	woken := b.waiting
	b.waiting = map[*space]func(int64){}
	share := max(1, (b.limit-b.held)/int64(len(woken)))
	b.mu.Unlock()
	for _, again := range woken {
		again(share)
	}
}
