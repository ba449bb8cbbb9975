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
		New:  func(w *World) Workload { return &publish{World: w} },
	}
}

const (
	publishQueues = 2
	discardEvery  = 20 // every so many messages one is discarded
)

// publish is the workload of Publish.
type publish struct {
	*World
	players players
}

func (p *publish) queues() []string { return []string{p.Queue("q1"), p.Queue("q2")} }
func (p *publish) dead() string     { return p.Queue("dead") }

// Leading implements Workload.
func (p *publish) Leading() string { return p.queues()[0] }

// Prepare implements Workload.
func (p *publish) Prepare(ctx context.Context) error {
	if err := p.declare(ctx, p.dead(), nil, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	for i, q := range p.queues() {
		spec := history.Queue{DeliveryLimit: -1, DeadTo: p.dead(), Ordered: true}
		if err := p.declare(ctx, q, deadLetters(p.dead(), client.Table{"x-delivery-limit": -1}), spec); err != nil {
			return err
		}
		for n := range 4 {
			p.players.publisher(p.class(n), &Publisher{Queue: q})
		}
		// One consumer sees each publisher's order; two could be read in another order than they were
		// served.
		p.players.consumer(p.class(i), &Consumer{Queue: q, Decide: discardSome})
	}
	p.players.consumer(p.class(2), &Consumer{Queue: p.dead()})
	p.players.consumer(p.class(3), &Consumer{Queue: p.dead()})
	return nil
}

// discardSome discards every twentieth message, whoever published it.
func discardSome(d *history.Event) history.Outcome {
	if d.ID%discardEvery == 7 {
		return history.Discard
	}
	return history.Ack
}

// Publish implements Workload.
func (p *publish) Publish(ctx, publishing context.Context) error {
	return p.players.play(ctx, publishing, p.World)
}

// Drain implements Workload: first the queues, then their dead letters, since nothing flows the
// other way.
func (p *publish) Drain(ctx context.Context) error {
	p.drained(ctx, append(p.queues(), p.dead())...)
	return p.players.failures()
}
