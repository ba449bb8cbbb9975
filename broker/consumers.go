package broker

import (
	"context"
	"math/bits"
	"time"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/message"
)

// origin is what operators see of a consumer and does not change, and its connection.
type origin struct {
	info       clients.ConsumerInfo
	connection *connections.Connection // nil: this node's own
}

// originOf gathers it once, when the consumer begins: operators may look often.
func (b *Broker) originOf(ctx context.Context, about failure.Error, o *Consume) origin {
	x := origin{connection: connections.ConnectionOf(ctx), info: clients.ConsumerInfo{
		VHost: about.VHost, Queue: about.Name, Tag: clients.AsText(o.Tag), Prefetch: o.Prefetch, Priority: o.Priority,
		AutoAck: o.AutoAck, Exclusive: o.Exclusive, SinceMs: time.Now().UnixMilli(),
	}}
	if len(o.Arguments) > 0 {
		x.info.Arguments = message.AppendTable(nil, o.Arguments)
	}
	if who, err := b.Logins.Who(ctx); err == nil && who != nil {
		x.info.User = who.User()
	}
	return x
}

// hide ends that operators see the consumer, and that it counts.
func (c *Consumer) hide() {
	c.b.clients.HideConsumer(c.shown)
	c.mu.Lock()
	uncount := c.uncount
	c.uncount = nil
	c.mu.Unlock()
	if uncount != nil {
		uncount()
	}
}

// counts keeps what takes the consumer off the limits again, unless it was closed meanwhile.
func (c *Consumer) counts(uncount func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.uncount = uncount
	}
	c.mu.Unlock()
	if closed {
		uncount()
	}
}

// look returns what operators see, and the consumer's connection; false if the queue has
// ended it.
func (c *Consumer) look() (x clients.ConsumerInfo, from *clients.Connection, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x = c.origin.info
	if c.origin.connection != nil {
		from = c.origin.connection.Open
	}
	x.Activity = c.active.String()
	x.Unsettled, x.Buffered = c.open.count(), uint64(len(c.arrived)-c.at) // not below 0
	return x, from, c.ended == nil
}

// String returns how operators see it.
func (a Activity) String() string { return [...]string{"shared", "active", "waiting"}[a] }

// count returns how many ids are delivered and not decided.
func (u *unacked) count() uint64 {
	n := u.last - u.base
	for _, w := range u.decided {
		n -= uint64(bits.OnesCount64(w)) // 0 to 64
	}
	return n
}
