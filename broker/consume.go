package broker

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/message"
)

// Consume has the parameters of a consumer.
type Consume struct {
	VHost, Queue string
	Tag          string        // the client's name for the consumer, which operators see
	Arguments    message.Table // as AMQP's clients give them; operators see them, and unknown ones are counted (C-9)
	Prefetch     uint32        // limit of unsettled messages; 0: quorumq.MaxOutstanding (DEL-3)
	AutoAck      bool
	Priority     int32
	Exclusive    bool // CO-2
	// TimeoutMs is the consumer's own time limit for settling a delivery, in milliseconds; 0: none (CT-1). It counts
	// only if HasTimeout is set.
	HasTimeout bool
	TimeoutMs  int64
	// ExplicitCredit holds deliveries back until AddCredit allows them.
	ExplicitCredit bool
	// Wake, if set, replaces the token of Ready: it is called when Take may have something new. Any goroutine may call
	// it, even before Consume has returned. It must not block.
	Wake func()
	// Buffer limits the bytes that wait for Take, together with those of all other consumers with the same Buffer. nil:
	// the consumer gets its own.
	Buffer *Buffer
	// Channel is the number of the channel that operators see the consumer on; 0: there are no channels.
	Channel uint32
}

// origin has the properties of a consumer that operators see and that never change, and the consumer's connection.
type origin struct {
	info       clients.ConsumerInfo
	connection *connections.Connection // nil: the node itself is the client
}

// originOf collects the origin when a consumer begins, and not each time operators look, which may be often. about
// names the queue.
func originOf(ctx context.Context, logins *identity.Logins, about failure.Error, o *Consume) origin {
	x := origin{connection: connections.ConnectionOf(ctx), info: clients.ConsumerInfo{
		VHost: about.VHost, Queue: about.Name, Tag: clients.AsText(o.Tag), Prefetch: o.Prefetch, Priority: o.Priority,
		AutoAck: o.AutoAck, Exclusive: o.Exclusive, Channel: o.Channel, SinceMs: time.Now().UnixMilli(),
	}}
	if len(o.Arguments) > 0 {
		x.info.Arguments = message.AppendTable(nil, o.Arguments)
	}
	if who, err := logins.Who(ctx); err == nil && who != nil {
		x.info.User = who.User()
	}
	return x
}
