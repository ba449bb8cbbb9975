package broker

import (
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// firstWindow is how many deliveries a consumer may have that it has not taken, before
// their size is known. A consumer whose prefetch is no larger is not bounded here.
const firstWindow = 256

// firstAutoAck is the same with auto-ack: what was assigned cannot be left in the queue.
const firstAutoAck = 16

// creditTracker holds a consumer's credit where this node limits it: explicit credit, and a
// window of deliveries that wait to be taken, as many as the buffer has room for. What a
// client does not take stays in the queue for others.
type creditTracker struct {
	explicit, bounded bool
	granted           uint64 // by the client, in all
	sent              uint64 // to the queue, in all

	room    int64  // of the buffer, in bytes
	average int64  // bytes of a delivery lately; 0: none was taken
	window  uint64 // deliveries
}

// newCreditTracker returns the tracker of a consumer that has taken nothing; room is that of its buffer, in bytes.
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

// saw learns from deliveries that were taken how large they are.
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

// limit is the highest id that may be delivered when taken were.
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

// resize has the window double, as far as there is room for what is as large as the last
// deliveries.
func (b *creditTracker) resize() {
	if b.average > 0 {
		most := uint64(max(1, b.room/b.average)) // positive
		b.window = min(2*b.window, most, quorumq.MaxOutstanding)
	}
}

// raise returns the limit to be sent to the queue when taken deliveries were, 0 if it has that. It waits
// until a good part is used, so that a command is not spent on each delivery.
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
