package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Crashes is the workload of consumers that die with what they hold: their TCP connection is reset,
// or their stream ends, and they come back. Each redelivery has its cause in the history.
func Crashes() Kind {
	return Kind{
		Name: "crashes", Protocols: []string{overGRPC, overAMQP}, Rate: 50,
		Does: "consumers that drop their connection with unacked messages, and come back",
		New:  func(w *World) Workload { return &crashes{base{World: w}} },
	}
}

// crashes is the workload of Crashes.
type crashes struct{ base }

// Prepare implements Workload.
func (c *crashes) Prepare(ctx context.Context) error {
	q := c.Queue("q")
	c.drains = []string{q}
	for n := range 2 {
		c.players.publisher(c.class(n), &Publisher{Queue: q})
	}
	for n := range 4 {
		c.players.consumer(c.class(n), &Consumer{
			Queue: q, Prefetch: 30, hold: 10,
			comes: &comings{stay: 800 * time.Millisecond, away: 100 * time.Millisecond, crash: true, random: c.random(n)},
		})
	}
	return c.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1})
}

// random returns what the nth client of the workload draws by.
func (w *World) random(n int) *rand.Rand { return rand.New(rand.NewPCG(w.Seed, uint64(n))) }
