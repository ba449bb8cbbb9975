package workload

import (
	"context"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Priorities is the workload of messages with priorities, in bursts that wait for a consumer of a
// small prefetch: of what waits, the highest comes first.
func Priorities() Kind {
	return Kind{
		Name: "priorities", Protocols: []string{overGRPC, overAMQP}, Rate: 40,
		Does: "bursts of messages with 31 priorities, of which the highest comes first",
		New:  func(w *World) Workload { return &priorities{base{World: w}} },
	}
}

const (
	priorityBurst    = 20
	priorityPrefetch = 3
	maxPriority      = 31 // of quorum queues (PR-1)
)

// priorities is the workload of Priorities.
type priorities struct{ base }

// Prepare implements Workload.
func (p *priorities) Prepare(ctx context.Context) error {
	q := p.Queue("q")
	p.drains = []string{q}
	for n := range 2 {
		p.players.publisher(p.class(n), &Publisher{Queue: q, burst: priorityBurst, post: func(id uint64) post {
			return post{key: q, priority: uint8(1 + id*7%maxPriority)}
		}})
	}
	// Each connection of AMQP is a consumer of its own, so that its prefetch can be followed.
	p.players.consumer(p.class(1), &Consumer{Queue: q, Prefetch: priorityPrefetch})
	return p.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Priorities: true})
}
