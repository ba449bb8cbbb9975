package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Retry is the workload of messages that fail: some are returned once, some always, up to the
// delivery limit, and what nobody consumes expires. All of that is dead-lettered at least once. Of
// bursts some are given back while others wait, which they come before (DEL-1).
func Retry() Kind {
	return Kind{
		Name: "retry", Protocols: []string{overGRPC, overAMQP}, Rate: 100,
		Does: "messages that are returned, also while others wait, that fail up to the delivery limit, and that expire",
		New:  func(w *World) Workload { return &retry{base{World: w}} },
	}
}

const (
	retryLimit = 3               // failed attempts of a message
	retryTTL   = 3 * time.Second // of what waits for nobody; half of it is beyond the skew limit
	failEvery  = 10              // every so many messages one is returned once, and one always

	backBurst    = 20 // messages that wait at once where some are given back
	backPrefetch = 3
	backEvery    = 5 // every so many messages one is given back as failed, and one as not
)

// retry is the workload of Retry.
type retry struct{ base }

// Prepare implements Workload.
func (r *retry) Prepare(ctx context.Context) error {
	work, late, dead := []string{r.Queue("work1"), r.Queue("work2")}, r.Queue("late"), r.Queue("dead")
	r.drains = append(work, late, dead)
	for n := range 4 {
		r.players.publisher(r.class(n), &Publisher{Queue: work[n%2]})
	}
	for n := range 2 { // one for each work queue, which sees its order
		r.players.publisher(r.class(n), &Publisher{Queue: late})
		r.players.consumer(r.class(n+2), &Consumer{Queue: work[n], Decide: failSome})
		r.players.consumer(r.class(n), &Consumer{Queue: dead})
	}
	for n, q := range []string{r.Queue("back1"), r.Queue("back2")} {
		r.drains = append(r.drains, q)
		r.players.publisher(r.class(n), &Publisher{Queue: q, burst: backBurst})
		r.players.consumer(r.class(3-n), &Consumer{Queue: q, Prefetch: backPrefetch, Decide: giveSomeBack, commits: true})
		if err := r.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: true}); err != nil {
			return err
		}
	}
	if err := r.declare(ctx, dead, nil, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	if err := r.declare(ctx, late, deadLetters(dead, client.Table{"x-message-ttl": retryTTL.Milliseconds()}),
		history.Queue{DeliveryLimit: -1, TTL: retryTTL, DeadTo: dead}); err != nil {
		return err
	}
	for _, q := range work {
		if err := r.declare(ctx, q, deadLetters(dead, client.Table{"x-delivery-limit": retryLimit}),
			history.Queue{DeliveryLimit: retryLimit, DeadTo: dead, Ordered: true}); err != nil {
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

// giveSomeBack gives a message back once, by its number alone.
func giveSomeBack(d *history.Event) history.Outcome {
	switch {
	case d.Acquired > 0:
	case d.ID%backEvery == 2:
		return history.Return
	case d.ID%backEvery == 4:
		return history.Requeue
	}
	return history.Ack
}
