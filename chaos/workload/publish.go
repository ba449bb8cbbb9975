package workload

import (
	"context"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Publish is the workload that publishes, acks, and discards every twentieth message into a dead-letter queue.
func Publish() Kind {
	return Kind{
		Name: "publish", Protocols: []string{"grpc"},
		Does: "three publishers, a consumer that acks and discards, dead letters at least once",
		New:  func(w *World) Workload { return &publish{World: w} },
	}
}

const (
	publishers   = 3
	bodyBytes    = 256
	discardEvery = 20 // every so many messages one is discarded
	prefetch     = 200
)

// publish is the workload of Publish.
type publish struct {
	*World
	players players
}

func (p *publish) queue() string { return p.Queue("q") }
func (p *publish) dead() string  { return p.Queue("q.dead") }

// Leading implements Workload.
func (p *publish) Leading() string { return p.queue() }

// Prepare implements Workload.
func (p *publish) Prepare(ctx context.Context) error {
	for range publishers {
		p.players.add(p.World, []*Publisher{{Queue: p.queue()}}, nil)
	}
	p.players.add(p.World, nil, []*Consumer{{Queue: p.queue(), Decide: p.decide}, {Queue: p.dead()}})
	if err := p.declare(ctx, p.dead(), nil, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	return p.declare(ctx, p.queue(), deadLetters(p.dead(), client.Table{"x-delivery-limit": -1}),
		history.Queue{DeliveryLimit: -1, DeadTo: p.dead(), Ordered: true})
}

// decide discards every twentieth message, whoever published it.
func (p *publish) decide(m history.Message, _ *client.Delivery) history.Outcome {
	if m.ID%discardEvery == 7 {
		return history.Discard
	}
	return history.Ack
}

// Publish implements Workload.
func (p *publish) Publish(ctx, publishing context.Context) error {
	return p.players.play(ctx, publishing, p.World)
}

// Drain implements Workload: first the queue, then its dead letters, since nothing flows the
// other way.
func (p *publish) Drain(ctx context.Context) error {
	p.drained(ctx, p.queue(), p.dead())
	return p.players.failures()
}
