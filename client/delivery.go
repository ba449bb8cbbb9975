package client

import (
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Received is a message as a consumer receives it.
type Received struct {
	Exchange   string
	RoutingKey string
	Properties
	Body          []byte
	Redelivered   bool
	DeliveryCount uint32  // earlier failed deliveries (DEL-8)
	AcquiredCount uint32  // earlier deliveries
	Deaths        []Death // newest first
	Annotations   Table   // added by earlier returns and discards (DEL-11)
}

// receivedFromProto converts a delivery. If the routing key is not valid UTF-8, it takes the exact
// bytes (AM-9).
func receivedFromProto(d *brokerv1.Delivery) Received {
	return Received{
		Exchange: d.GetExchange(), RoutingKey: exact(d.GetRoutingKey(), d.GetRawRoutingKey()), Properties: propertiesFromProto(d.GetProperties()),
		Body: d.GetBody(), Redelivered: d.GetRedelivered(), DeliveryCount: d.GetDeliveryCount(),
		AcquiredCount: d.GetAcquiredCount(), Deaths: deathsFromProto(d.GetDeaths()), Annotations: tableFromProto(d.GetAnnotations()),
	}
}

// DecisionKind is what to do with a delivered message.
type DecisionKind uint8

// The kinds (DEL-8).
const (
	Ack     DecisionKind = iota + 1 // done: remove it
	Requeue                         // return it to the queue
	Discard                         // dead-letter it, or drop it if there is no dead-letter exchange
)

// proto leaves an unknown kind unspecified, which the broker refuses.
func (k DecisionKind) proto() brokerv1.Outcome {
	switch k {
	case Ack:
		return brokerv1.Outcome_OUTCOME_ACK
	case Requeue:
		return brokerv1.Outcome_OUTCOME_REQUEUE
	case Discard:
		return brokerv1.Outcome_OUTCOME_DISCARD
	default:
		return brokerv1.Outcome_OUTCOME_UNSPECIFIED
	}
}

// Decision is a decision about a delivered message.
type Decision struct {
	Kind DecisionKind
	// Failed counts the delivery as failed, toward the delivery limit; not for Ack.
	Failed bool
	// Annotations are added to the message's; later ones replace earlier ones of the same name
	// (DEL-11). Names must start with "x-".
	Annotations Table
	// DeliverAt, or else Delay, both in whole milliseconds, is when a returned message becomes ready
	// again, whatever the queue's delayed retry is (DR-4). Only for Requeue.
	DeliverAt time.Time
	Delay     time.Duration
}

// Delivery is a message delivered to a consumer.
type Delivery struct {
	Received
	consumer *Consumer
	stream   uint64 // number of the consumer's stream that it came over
	id       uint64
}

// Ack removes the message from the queue. It does not wait, see Consumer.Flush. The error is
// ErrStale when the message does not belong to this consumer any more.
func (d *Delivery) Ack() error { return d.Decide(Decision{Kind: Ack}) }

// Requeue returns the message to the queue, as a failed delivery if failed is set (DEL-9).
func (d *Delivery) Requeue(failed bool) error {
	return d.Decide(Decision{Kind: Requeue, Failed: failed})
}

// RequeueAfter returns the message to the queue, where it is ready again after the delay (DR-4).
func (d *Delivery) RequeueAfter(failed bool, delay time.Duration) error {
	return d.Decide(Decision{Kind: Requeue, Failed: failed, Delay: delay})
}

// Discard dead-letters the message with reason rejected.
func (d *Delivery) Discard() error { return d.Decide(Decision{Kind: Discard, Failed: true}) }

// ExtendAckDeadline asks that the message may stay unacked for this long from now, if that is later
// than its deadline (CT-5). It does not wait. The error is ErrStale when the message does not
// belong to this consumer any more.
func (d *Delivery) ExtendAckDeadline(by time.Duration) error {
	return d.consumer.extendAckDeadline(d, by)
}

// Revoked reports that the message stayed unacked for too long and is back in the queue (CT-3).
// Settle it nevertheless: that no longer changes anything for the message, but until then the
// consumer gets no further messages.
func (d *Delivery) Revoked() bool { return d.consumer.isRevoked(d) }

// Decide settles the message, once.
func (d *Delivery) Decide(decision Decision) error { return d.consumer.decide(d, decision) }
