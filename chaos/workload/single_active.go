package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// SingleActive is the workload of a queue whose consumers take turns: one at a time is active.
func SingleActive() Kind {
	return Kind{
		Name: "single-active", Protocols: []string{overGRPC, overAMQP}, Rate: 40,
		Does: "consumers of a queue with a single active consumer that come and go",
		New:  func(w *World) Workload { return &singleActive{base{World: w}} },
	}
}

// singleActive is the workload of SingleActive.
type singleActive struct{ base }

// Prepare implements Workload.
func (s *singleActive) Prepare(ctx context.Context) error {
	q := s.Queue("q")
	s.drains = []string{q}
	for n := range 2 {
		s.players.publisher(s.class(n), &Publisher{Queue: q})
	}
	for n := range 4 {
		s.players.consumer(s.class(n), &Consumer{
			Queue: q, Prefetch: 20, hold: 5, single: true,
			comes: &comings{stay: time.Second, away: 200 * time.Millisecond, random: s.random(n)},
		})
	}
	return s.declare(ctx, q, client.Table{"x-single-active-consumer": true, "x-delivery-limit": -1},
		history.Queue{DeliveryLimit: -1, SingleActive: true})
}
