package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Delayed is the workload of messages that are published for later: over gRPC with a delay, over
// AMQP through an exchange for delayed messages. None comes before its time.
func Delayed() Kind {
	return Kind{
		Name: "delayed", Protocols: []string{overGRPC, overAMQP}, Rate: 40,
		Does: "messages with delays of 0 to 4 s, none delivered before its time",
		New:  func(w *World) Workload { return &delayed{base{World: w}} },
	}
}

// Delays are multiples of delayStep, delaySteps of them.
const (
	delayStep  = 200 * time.Millisecond
	delaySteps = 21
)

// delayed is the workload of Delayed.
type delayed struct{ base }

// Prepare implements Workload.
func (d *delayed) Prepare(ctx context.Context) error {
	q, exchange := d.Queue("q"), d.Queue("later")
	d.drains = []string{q}
	for n := range 4 {
		d.players.publisher(d.class(n), &Publisher{Queue: q, post: func(id uint64) post {
			return post{exchange: exchange, key: q, delay: time.Duration(id*8%delaySteps) * delayStep} // 8: neighbours differ much
		}})
	}
	for n := range 2 {
		d.players.consumer(d.class(n), &Consumer{Queue: q})
	}
	if err := d.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	x := client.Exchange{VHost: d.VHost, Name: exchange, Type: "x-delayed-message", Arguments: client.Table{"x-delayed-type": "direct"}}
	if _, err := d.Client.DeclareExchange(ctx, x); err != nil {
		return err
	}
	return d.Client.Bind(ctx, client.Binding{VHost: d.VHost, Source: exchange, Destination: q, RoutingKey: q})
}
