package broker

import (
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
)

// DefaultDeliveryBufferBytes is the default of Config.DeliveryBufferBytes.
const DefaultDeliveryBufferBytes = 16 << 20

// Buffer bounds the bytes of deliveries that have reached this node and that a client does not
// take: its consumers get no more from their queues until half of them are gone. One message
// may go beyond the bound, and those with auto-ack may. A client's connection has one for all
// its consumers if it takes what it is sent in one go.
type Buffer struct{ b *gateway.Buffer }

// NewBuffer returns a buffer of Config.DeliveryBufferBytes.
func (b *Broker) NewBuffer() *Buffer {
	return &Buffer{b: gateway.NewBuffer(b.cfg.DeliveryBufferBytes, &b.buffers)}
}

// Buffered returns how many bytes of deliveries wait on this node to be taken by clients, and
// how often consumers had to wait because it was too much.
func (b *Broker) Buffered() (bytes int64, stops uint64) {
	return b.buffers.Held.Load(), b.buffers.Stops.Load()
}

// sizeOf returns the bytes of deliveries as they count in a Buffer.
func sizeOf(ds []traffic.Delivery) (sum int64) {
	for i := range ds {
		sum += ds[i].Size()
	}
	return sum
}

// freeLocked returns how much room the taking of a batch makes.
func (c *Consumer) freeLocked(batch []traffic.Delivery) int64 {
	if c.closed {
		return 0
	}
	freed := sizeOf(batch)
	c.bytes -= freed
	return freed
}
