package workload

import (
	"context"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// ExpiryChain is the workload of messages that expire in three queues, one after another, each of
// which dead-letters into the next at least once; from the last one a fan-out exchange leads to two
// queues. Each message is in both in the end, once, with its three deaths.
func ExpiryChain() Kind {
	return Kind{
		Name: "expiry-chain", Protocols: []string{overGRPC, overAMQP}, Rate: 30,
		Does: "messages that expire through three queues into a fan-out, dead-lettered at least once",
		New:  func(w *World) Workload { return &expiryChain{base{World: w}} },
	}
}

// chainTTL is that of each queue; ownTTL is the shorter one that some messages have.
const (
	chainTTL = 600 * time.Millisecond
	ownTTL   = 200 * time.Millisecond
)

// expiryChain is the workload of ExpiryChain.
type expiryChain struct{ base }

// Prepare implements Workload.
func (x *expiryChain) Prepare(ctx context.Context) error {
	chain := []string{x.Queue("first"), x.Queue("second"), x.Queue("third")}
	ends, fan := []string{x.Queue("end1"), x.Queue("end2")}, x.Queue("fan")
	x.drains = append(append(x.drains, chain...), ends...)
	if _, err := x.Client.DeclareExchange(ctx, client.Exchange{VHost: x.VHost, Name: fan, Type: "fanout"}); err != nil {
		return err
	}
	for n, q := range ends {
		if err := x.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1}); err != nil {
			return err
		}
		if err := x.Client.Bind(ctx, client.Binding{VHost: x.VHost, Source: fan, Destination: q}); err != nil {
			return err
		}
		x.players.consumer(x.class(n), &Consumer{Queue: q})
		x.players.publisher(x.class(n), &Publisher{Queue: chain[0], post: func(id uint64) post {
			m := post{key: chain[0]}
			if id%3 == 0 {
				m.ttl = ownTTL
			}
			return m
		}})
	}
	for n := len(chain) - 1; n >= 0; n-- { // the last one first, so that each has its target
		arguments := deadLetters("", client.Table{"x-message-ttl": chainTTL.Milliseconds()})
		spec := history.Queue{DeliveryLimit: -1, TTL: chainTTL, DeadTo: ends[0], DeadFan: ends[1:]}
		arguments["x-dead-letter-exchange"] = fan
		if n+1 < len(chain) {
			arguments = deadLetters(chain[n+1], arguments)
			spec.DeadTo, spec.DeadFan = chain[n+1], nil
		}
		if err := x.declare(ctx, chain[n], arguments, spec); err != nil {
			return err
		}
	}
	return nil
}
