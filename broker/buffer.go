package broker

import (
	"github.com/quorate/quorate/cluster/gateway"
)

// DefaultDeliveryBufferBytes is the default of Config.DeliveryBufferBytes.
const DefaultDeliveryBufferBytes = 16 << 20

// Buffer limits the bytes of deliveries that wait on this node until a client takes them. At the limit, the client's
// consumers get nothing more from their queues until half of the bytes are taken. One message may exceed the limit, and
// so may deliveries with auto-ack. Consumers whose deliveries leave through the same socket share one Buffer.
type Buffer struct{ b *gateway.Buffer }

// Buffers creates the buffers of a node's clients, and counts what waits in all of them. All methods may be called
// concurrently.
type Buffers struct {
	limit int64 // of each, in bytes
	stats gateway.BufferStats
}

// New returns a buffer with the limit Config.DeliveryBufferBytes.
func (b *Buffers) New() *Buffer { return &Buffer{b: gateway.NewBuffer(b.limit, &b.stats)} }

// Held returns how many bytes of deliveries wait on this node until clients take them, and how often consumers had to
// wait because their buffer was full.
func (b *Buffers) Held() (bytes int64, stops uint64) {
	return b.stats.Held.Load(), b.stats.Stops.Load()
}
