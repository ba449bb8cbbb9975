package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Large is the workload of large messages and slow consumers: flow control holds publishers back,
// and no body is cut or mixed up.
func Large() Kind {
	return Kind{
		Name: "large", Protocols: []string{overGRPC, overAMQP}, Rate: 1,
		Does: "messages of 1 to 8 MiB and slow consumers; one a second, whatever the rate is",
		New:  func(w *World) Workload { return &large{base{World: w}} },
	}
}

// largeEvery is the time between two messages of one publisher: bytes are what they cost.
const largeEvery = 2 * time.Second

// large is the workload of Large.
type large struct{ base }

// Prepare implements Workload.
func (l *large) Prepare(ctx context.Context) error {
	q := l.Queue("q")
	l.drains = []string{q}
	for n := range 2 {
		l.players.publisher(l.class(n), &Publisher{Queue: q, Apart: "of large messages", every: largeEvery, post: func(id uint64) post {
			return post{key: q, size: 1<<20<<(3*(id%2)) - int(id)} // 1 MiB and 8 MiB, about
		}})
		l.players.consumer(l.class(n), &Consumer{Queue: q, Prefetch: 2, slow: 300 * time.Millisecond})
	}
	return l.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1})
}
