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

// Consume is what to consume, and in which way.
type Consume struct {
	VHost, Queue string
	Tag          string        // the client's name for it, which operators see
	Arguments    message.Table // as the client gave them: operators see them, and unknown ones count (C-9)
	Prefetch     uint32        // bound of unsettled messages; 0: quorumq.MaxOutstanding (DEL-3)
	AutoAck      bool
	Priority     int32
	Exclusive    bool // CO-2
	// TimeoutMs is the consumer's own timeout of a delivery in milliseconds, if HasTimeout; 0:
	// none (CT-1).
	HasTimeout bool
	TimeoutMs  int64
	// ExplicitCredit delivers nothing until AddCredit allows it.
	ExplicitCredit bool
	// Wake, if set, is called from any goroutine when Take may have something new, in place of
	// the token of Ready. It must not block, and may be called before Consume has returned.
	Wake func()
	// Buffer bounds the bytes that wait for Take, together with those of other consumers that
	// have the same; nil: one of its own.
	Buffer *Buffer
}

// origin is what operators see of a consumer and does not change, and its connection.
type origin struct {
	info       clients.ConsumerInfo
	connection *connections.Connection // nil: this node's own
}

// originOf gathers it once, when a consumer of the queue that about names begins: operators may look often.
func originOf(ctx context.Context, logins *identity.Logins, about failure.Error, o *Consume) origin {
	x := origin{connection: connections.ConnectionOf(ctx), info: clients.ConsumerInfo{
		VHost: about.VHost, Queue: about.Name, Tag: clients.AsText(o.Tag), Prefetch: o.Prefetch, Priority: o.Priority,
		AutoAck: o.AutoAck, Exclusive: o.Exclusive, SinceMs: time.Now().UnixMilli(),
	}}
	if len(o.Arguments) > 0 {
		x.info.Arguments = message.AppendTable(nil, o.Arguments)
	}
	if who, err := logins.Who(ctx); err == nil && who != nil {
		x.info.User = who.User()
	}
	return x
}
