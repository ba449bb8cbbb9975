package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// AtMostOnce is the workload of dead letters that are sent at most once, of messages that expire
// and of such that are discarded: they may be lost when a leader is, and never arrive twice (DL-12).
func AtMostOnce() Kind {
	return Kind{
		Name: "at-most-once", Protocols: []string{overGRPC, overAMQP}, Rate: 30,
		Does: "messages that expire or are discarded; dead letters at most once, none twice",
		New:  func(w *World) Workload { return &atMostOnce{base{World: w}} },
	}
}

// onceTTL is short, so that many of the queue's commands discard something.
const onceTTL = 300 * time.Millisecond

// atMostOnce is the workload of AtMostOnce.
type atMostOnce struct{ base }

// Prepare implements Workload.
func (x *atMostOnce) Prepare(ctx context.Context) error {
	brief, work, dead := x.Queue("brief"), x.Queue("work"), x.Queue("dead")
	x.drains = []string{brief, work, dead}
	x.players.publisher(x.class(0), &Publisher{Queue: brief})
	x.players.publisher(x.class(1), &Publisher{Queue: work})
	x.players.consumer(x.class(2), &Consumer{Queue: work, Decide: discardHalf})
	x.players.consumer(x.class(3), &Consumer{Queue: dead})
	if err := x.declare(ctx, dead, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	spec := history.Queue{DeliveryLimit: -1, DeadTo: dead, AtMostOnce: true}
	if err := x.declare(ctx, work, deadLettersBy("at-most-once", dead, client.Table{"x-delivery-limit": -1}), spec); err != nil {
		return err
	}
	spec.TTL = onceTTL
	return x.declare(ctx, brief, deadLettersBy("at-most-once", dead, client.Table{"x-message-ttl": onceTTL.Milliseconds()}), spec)
}

// discardHalf discards every second message.
func discardHalf(d *history.Event) history.Outcome {
	if d.ID%2 == 0 {
		return history.Discard
	}
	return history.Ack
}
