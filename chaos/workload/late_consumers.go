package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// LateConsumers is the workload of consumers that are too late for many messages: they come, have
// room, or give a message back only when that has expired. None gets such a message (TTL-2, TTL-3):
// it is dead-lettered at least once.
func LateConsumers() Kind {
	return Kind{
		Name: "late-consumers", Protocols: []string{overGRPC, overAMQP}, Rate: 20,
		Does: "consumers that come, have room or give messages back when these have expired; dead letters at least once",
		New:  func(w *World) Workload { return &lateConsumers{base{World: w}} },
	}
}

const (
	lateTTL  = time.Second
	lateStay = 500 * time.Millisecond // of the consumer that comes and goes
	// lateAway is longer than the TTL and the skew limit together: some of the messages that such a consumer must no
	// longer find are so old that no clock excuses it.
	lateAway = 2500 * time.Millisecond
	// lateHold is longer than the TTL: what was held for so long has expired when it is given back.
	lateHold = 1200 * time.Millisecond
)

// lateConsumers is the workload of LateConsumers.
type lateConsumers struct{ base }

// Prepare implements Workload.
func (x *lateConsumers) Prepare(ctx context.Context) error {
	left, held, dead := x.Queue("left"), x.Queue("held"), x.Queue("dead")
	x.drains = []string{left, held, dead}
	x.players.publisher(x.class(0), &Publisher{Queue: left})
	x.players.publisher(x.class(3), &Publisher{Queue: held})
	x.players.consumer(x.class(0), &Consumer{Queue: left, comes: &comings{stay: lateStay, away: lateAway, random: x.random(0)}})
	x.players.consumer(x.class(1), &Consumer{Queue: held, Prefetch: 1, slow: lateHold, Decide: giveBack})
	x.players.consumer(x.class(2), &Consumer{Queue: dead})
	if err := x.declare(ctx, dead, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	for _, q := range []string{left, held} {
		arguments := deadLetters(dead, client.Table{"x-message-ttl": lateTTL.Milliseconds(), "x-delivery-limit": -1})
		if err := x.declare(ctx, q, arguments, history.Queue{DeliveryLimit: -1, TTL: lateTTL, DeadTo: dead}); err != nil {
			return err
		}
	}
	return nil
}

// giveBack returns what is delivered for the first time.
func giveBack(d *history.Event) history.Outcome {
	if d.Acquired == 0 {
		return history.Return
	}
	return history.Ack
}
