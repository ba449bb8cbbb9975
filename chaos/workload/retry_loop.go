package workload

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// RetryLoop is the workload of messages that die in one queue again and again: consumers discard
// them, they expire in a queue where they wait, and come back to the first one, at least once. That
// a consumer discards them is why they may (DL-40). Each time counts in their deaths (DL-30).
func RetryLoop() Kind {
	return Kind{
		Name: "retry-loop", Protocols: []string{overGRPC, overAMQP}, Rate: 20,
		Does: "messages that are discarded, wait and come back, up to three times; dead letters at least once",
		New:  func(w *World) Workload { return &retryLoop{base: base{World: w}, began: map[history.Message]uint64{}} },
	}
}

const (
	loopRounds = 4 // of a message at most, by its number: the last one ends with an ack
	loopTTL    = 300 * time.Millisecond
)

// retryLoop is the workload of RetryLoop. mu guards what is below it.
type retryLoop struct {
	base
	work, wait string

	mu    sync.Mutex
	began map[history.Message]uint64 // discards
}

// Prepare implements Workload.
func (r *retryLoop) Prepare(ctx context.Context) error {
	r.work, r.wait = r.Queue("work"), r.Queue("wait")
	r.drains = []string{r.work, r.wait}
	for n := range 2 {
		r.players.publisher(r.class(n+2), &Publisher{Queue: r.work})
		r.players.consumer(r.class(n), &Consumer{Queue: r.work, Decide: r.decide})
	}
	err := r.declare(ctx, r.work, deadLetters(r.wait, client.Table{"x-delivery-limit": -1}), history.Queue{DeliveryLimit: -1, DeadTo: r.wait})
	if err != nil {
		return err
	}
	return r.declare(ctx, r.wait, deadLetters(r.work, client.Table{"x-delivery-limit": -1, "x-message-ttl": loopTTL.Milliseconds()}),
		history.Queue{DeliveryLimit: -1, TTL: loopTTL, DeadTo: r.work})
}

// decide discards a message as often as its number says, whatever deaths it carries: those are what is
// judged. A discard that had no effect counts too.
func (r *retryLoop) decide(d *history.Event) history.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := d.Message()
	if r.began[m] >= m.ID%loopRounds {
		return history.Ack
	}
	r.began[m]++
	return history.Discard
}

// Drain implements Workload.
func (r *retryLoop) Drain(ctx context.Context) error {
	r.drainedLoop(ctx, loopRounds, r.work, r.wait)
	return r.players.failures()
}
