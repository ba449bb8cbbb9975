package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Retry is the workload of messages that fail: some are returned once, some always, up to the
// delivery limit, and what nobody consumes expires. All of that is dead-lettered at least once.
func Retry() Kind {
	return Kind{
		Name: "retry", Protocols: []string{overGRPC, overAMQP}, Rate: 80,
		Does: "messages that are returned, that fail up to the delivery limit, and that expire",
		New:  func(w *World) Workload { return &retry{World: w} },
	}
}

const (
	retryLimit = 3               // failed attempts of a message
	retryTTL   = 2 * time.Second // of what waits for nobody
	failEvery  = 10              // every so many messages one is returned once, and one always
)

// retry is the workload of Retry.
type retry struct {
	*World
	players players
}

func (r *retry) work() []string { return []string{r.Queue("work1"), r.Queue("work2")} }
func (r *retry) late() string   { return r.Queue("late") }
func (r *retry) dead() string   { return r.Queue("dead") }

// Leading implements Workload.
func (r *retry) Leading() string { return r.work()[0] }

// Prepare implements Workload.
func (r *retry) Prepare(ctx context.Context) error {
	for n := range 4 {
		r.players.publisher(r.class(n), &Publisher{Queue: r.work()[n%2]})
	}
	for n := range 2 { // one for each work queue, which sees its order
		r.players.publisher(r.class(n), &Publisher{Queue: r.late()})
		r.players.consumer(r.class(n+2), &Consumer{Queue: r.work()[n], Decide: failSome})
		r.players.consumer(r.class(n), &Consumer{Queue: r.dead()})
	}
	if err := r.declare(ctx, r.dead(), nil, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	if err := r.declare(ctx, r.late(), deadLetters(r.dead(), client.Table{"x-message-ttl": retryTTL.Milliseconds()}),
		history.Queue{DeliveryLimit: -1, TTL: retryTTL, DeadTo: r.dead()}); err != nil {
		return err
	}
	for _, q := range r.work() {
		if err := r.declare(ctx, q, deadLetters(r.dead(), client.Table{"x-delivery-limit": retryLimit}),
			history.Queue{DeliveryLimit: retryLimit, DeadTo: r.dead(), Ordered: true}); err != nil {
			return err
		}
	}
	return nil
}

// failSome lets a message fail always, or at its first attempt, by its number alone: so it does not
// depend on who gets it.
func failSome(d *history.Event) history.Outcome {
	switch d.ID % failEvery {
	case 3:
		return history.Requeue
	case 7:
		if d.Count == 0 {
			return history.Requeue
		}
	}
	return history.Ack
}

// Publish implements Workload.
func (r *retry) Publish(ctx, publishing context.Context) error {
	return r.players.play(ctx, publishing, r.World)
}

// Drain implements Workload.
func (r *retry) Drain(ctx context.Context) error {
	r.drained(ctx, append(r.work(), r.late(), r.dead())...)
	return r.players.failures()
}
