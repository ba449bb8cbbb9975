package workload

import (
	"context"
	"errors"
	"sync"

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
	consumers sync.WaitGroup
}

func (p *publish) queue() string { return p.Queue("q") }
func (p *publish) dead() string  { return p.Queue("q.dead") }

// Leading implements Workload.
func (p *publish) Leading() string { return p.queue() }

// Prepare implements Workload.
func (p *publish) Prepare(ctx context.Context) error {
	if err := p.declare(ctx, p.dead(), nil, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	return p.declare(ctx, p.queue(), client.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": p.dead(),
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-delivery-limit": -1,
	}, history.Queue{DeliveryLimit: -1, DeadTo: p.dead(), Ordered: true})
}

// Publish implements Workload.
func (p *publish) Publish(ctx, publishing context.Context) error {
	failed := make(chan error, publishers+2)
	for _, c := range []*Consumer{
		{Queue: p.queue(), Decide: func(m history.Message, _ *client.Delivery) history.Outcome {
			if m.ID%discardEvery == 7 {
				return history.Discard
			}
			return history.Ack
		}},
		{Queue: p.dead()},
	} {
		c.Client, c.History, c.Class, c.VHost, c.Prefetch = p.Client, p.History, "grpc/all", p.VHost, prefetch
		p.consumers.Go(func() { failed <- c.Run(ctx) })
	}
	var publishing3 sync.WaitGroup
	for range publishers {
		x := &Publisher{Client: p.Client, History: p.History, Class: "grpc/all", VHost: p.VHost, Queue: p.queue(), Size: bodyBytes, Rate: max(1, p.Rate/publishers)}
		publishing3.Go(func() { failed <- x.Run(publishing, p.Settle) })
	}
	publishing3.Wait()
	var errs []error
	for len(failed) > 0 {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// Drain implements Workload: first the queue, then its dead letters, since nothing flows the
// other way.
func (p *publish) Drain(ctx context.Context) error {
	p.drained(ctx, p.queue(), p.dead())
	return nil
}
