package broker

import (
	"github.com/quorate/quorate/cluster/gateway"
)

// DefaultDeliveryBufferBytes is the default of Config.DeliveryBufferBytes.
const DefaultDeliveryBufferBytes = 16 << 20

// Buffer bounds the bytes of deliveries that have reached this node and that a client does not
// take: its consumers get no more from their queues until half of them are gone. One message
// may go beyond the bound, and those with auto-ack may. A client's connection has one for all
// its consumers if it takes what it is sent in one go.
type Buffer struct{ b *gateway.Buffer }

// Buffers makes the buffers of a node's clients, and counts what waits in them. All methods may be called concurrently.
type Buffers struct {
	limit int64 // of each, in bytes
	stats gateway.BufferStats
}

// New returns a buffer of Config.DeliveryBufferBytes.
func (b *Buffers) New() *Buffer { return &Buffer{b: gateway.NewBuffer(b.limit, &b.stats)} }

// Held returns how many bytes of deliveries wait on this node to be taken by clients, and
// how often consumers had to wait because it was too much.
func (b *Buffers) Held() (bytes int64, stops uint64) {
	return b.stats.Held.Load(), b.stats.Stops.Load()
}
