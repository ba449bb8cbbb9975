package broker

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// traceDelivery makes the span of a delivery to a consumer.
func traceDelivery(t *tracing.Tracer, to *origin, d *Delivery) (_ tracing.Delivered, traced bool) {
	return t.Deliver(&tracing.Delivery{
		VHost: to.info.VHost, Queue: to.info.Queue, Consumer: to.info.Tag, Message: &d.Message,
		Redelivered: d.Redelivered, DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
	})
}

// traceReceipt makes the span of a message that Get takes; about names the queue.
func traceReceipt(t *tracing.Tracer, about failure.Error, d *Delivery, asked time.Time) {
	t.Receive(&tracing.Delivery{
		VHost: about.VHost, Queue: about.Name, Message: &d.Message,
		Redelivered: d.Redelivered, DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
	}, asked)
}

// traced holds the unsettled deliveries whose messages are traced, by delivery id. Its size is limited by the prefetch.
type traced map[uint64]tracing.Delivered

// settle makes the spans of the settlement of a range, and forgets the deliveries in it. about names the queue.
func (n traced) settle(t *tracing.Tracer, about failure.Error, r quorumq.MsgIDRange, how string, failed bool) {
	one := func(id uint64) {
		if d, is := n[id]; is {
			t.Settle(d, how, about.VHost, about.Name, failed)
			delete(n, id)
		}
	}
	if uint64(r.Last-r.First) < uint64(len(n)) { // the usual case: one delivery, or a few
		for m := r.First; m <= r.Last; m++ {
			one(uint64(m))
		}
		return
	}
	for _, id := range slices.Sorted(maps.Keys(n)) {
		if m := quorumq.MsgID(id); m >= r.First && m <= r.Last {
			one(id)
		}
	}
}

// traceDecision returns the word for a decision.
func traceDecision(k gateway.DecisionKind) string {
	switch k {
	case gateway.Ack:
		return "ack"
	case gateway.Requeue:
		return "requeue"
	case gateway.Discard:
	}
	return "discard"
}
