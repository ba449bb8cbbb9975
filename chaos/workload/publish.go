package workload

import (
	"context"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Publish is the workload that publishes, acks, and discards every twentieth message into a dead-letter queue.
func Publish() Kind {
	return Kind{
		Name: "publish", Protocols: []string{overGRPC, overAMQP}, Rate: 160,
		Does: "two queues, each with four publishers and a consumer that acks and discards; dead letters at least once",
		New:  func(w *World) Workload { return &publish{base{World: w}} },
	}
}

// discardEvery: every so many messages one is discarded.
const discardEvery = 20

// publish is the workload of Publish.
type publish struct{ base }

// Prepare implements Workload.
func (p *publish) Prepare(ctx context.Context) error {
	queues, dead := []string{p.Queue("q1"), p.Queue("q2")}, p.Queue("dead")
	p.drains = append(queues, dead)
	if err := p.declare(ctx, dead, nil, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	for i, q := range queues {
		spec := history.Queue{DeliveryLimit: -1, DeadTo: dead, Ordered: true}
		if err := p.declare(ctx, q, deadLetters(dead, client.Table{"x-delivery-limit": -1}), spec); err != nil {
			return err
		}
		for n := range 4 {
			p.players.publisher(p.class(n), &Publisher{Queue: q})
		}
		// One consumer sees each publisher's order; two could be read in another order than they were
		// served.
		p.players.consumer(p.class(i), &Consumer{Queue: q, Decide: discardSome})
	}
	p.players.consumer(p.class(2), &Consumer{Queue: dead})
	p.players.consumer(p.class(3), &Consumer{Queue: dead})
	return nil
}

// discardSome discards every twentieth message of any publisher.
func discardSome(d *history.Event) history.Outcome {
	if d.ID%discardEvery == 7 {
		return history.Discard
	}
	return history.Ack
}
