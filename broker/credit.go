package broker

import (
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// firstWindow is how many deliveries may wait for Take while their size is not known. A consumer with a prefetch up to
// this needs no window.
const firstWindow = 256

// firstAutoAck is firstWindow with auto-ack. It is smaller, because messages that are assigned with auto-ack leave the
// queue at once.
const firstAutoAck = 16

// creditTracker computes how much credit the queue may have for a consumer. This node limits it by the client's
// explicit credit, and by a window of deliveries that wait for Take; the window has as many as the buffer has room for.
// All other messages stay in the queue, for other consumers. The consumer's mu guards it.
type creditTracker struct {
	explicit, bounded bool
	granted           uint64 // by the client, in total
	sent              uint64 // to the queue, in total

	room    int64  // of the buffer, in bytes
	average int64  // recent bytes per delivery; 0: none was taken
	window  uint64 // how many deliveries may wait for Take
}

// newCreditTracker returns the tracker of a consumer that has taken nothing; room is the limit of its buffer, in bytes.
func newCreditTracker(o *Consume, room int64) creditTracker {
	b := creditTracker{
		explicit: o.ExplicitCredit, bounded: o.AutoAck || o.Prefetch == 0 || o.Prefetch > firstWindow,
		room: room, window: firstWindow,
	}
	if o.AutoAck {
		b.window = firstAutoAck
	}
	return b
}

// saw updates the average size with deliveries that were taken.
func (b *creditTracker) saw(batch []traffic.Delivery) {
	if len(batch) == 0 {
		return
	}
	size := max(1, sizeOf(batch)/int64(len(batch)))
	if b.average == 0 {
		b.average = size
		return
	}
	b.average += (size - b.average) / 4
}

// limit returns the highest id that may be delivered when Take has returned all up to taken.
func (b *creditTracker) limit(taken uint64) uint64 {
	if !b.bounded {
		return b.granted
	}
	most := taken + b.window
	if b.explicit {
		return min(b.granted, most)
	}
	return most
}

// resize doubles the window, but to no more deliveries of the average size than the buffer has room for.
func (b *creditTracker) resize() {
	if b.average > 0 {
		most := uint64(max(1, b.room/b.average)) // positive
		b.window = min(2*b.window, most, quorumq.MaxOutstanding)
	}
}

// raise returns the limit that the queue is to get when Take has returned all up to taken, or 0 if the queue needs no
// new one. It waits until a good part of the window is used, so that not every delivery costs a command.
func (b *creditTracker) raise(taken uint64) uint64 {
	limit := b.limit(taken)
	if limit <= b.sent || limit != b.granted && limit-b.sent < max(1, b.window/4) {
		return 0
	}
	b.resize()
	if limit = b.limit(taken); limit <= b.sent {
		return 0
	}
	b.sent = limit
	return limit
}
