package client

import (
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Received is a message as a consumer sees it.
type Received struct {
	Exchange   string
	RoutingKey string
	Properties
	Body          []byte
	Redelivered   bool
	DeliveryCount uint32  // earlier failed deliveries (DEL-8)
	AcquiredCount uint32  // earlier deliveries
	Deaths        []Death // newest first
	Annotations   Table   // given with earlier returns and discards (DEL-11)
}

// receivedFromProto takes the exact routing key where it is not valid UTF-8 (AM-9).
func receivedFromProto(d *brokerv1.Delivery) Received {
	return Received{
		Exchange: d.GetExchange(), RoutingKey: exact(d.GetRoutingKey(), d.GetRawRoutingKey()), Properties: propertiesFromProto(d.GetProperties()),
		Body: d.GetBody(), Redelivered: d.GetRedelivered(), DeliveryCount: d.GetDeliveryCount(),
		AcquiredCount: d.GetAcquiredCount(), Deaths: deathsFromProto(d.GetDeaths()), Annotations: tableFromProto(d.GetAnnotations()),
	}
}

// DecisionKind is what becomes of a delivered message.
type DecisionKind uint8

// The kinds (DEL-8).
const (
	Ack     DecisionKind = iota + 1 // done: removed
	Requeue                         // back to the queue
	Discard                         // dead-lettered, or dropped without a dead-letter exchange
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

// Decision decides about a delivered message.
type Decision struct {
	Kind DecisionKind
	// Failed counts the delivery as failed, toward the delivery limit; not for Ack.
	Failed bool
	// Annotations are added to those of the message, later ones in place of earlier ones of the
	// same name (DEL-11); names must start with "x-".
	Annotations Table
	// DeliverAt, or else Delay, both in whole milliseconds, says when a returned message is to be
	// ready again, whatever the queue's delayed retry says (DR-4); for Requeue only.
	DeliverAt time.Time
	Delay     time.Duration
}

// Delivery is a message handed to a consumer.
type Delivery struct {
	Received
	consumer *Consumer
	stream   uint64 // of the consumer's streams, the one it came over
	id       uint64
}

// Ack removes the message from the queue. It does not wait, see Consumer.Flush; the
// error is ErrStale when the message is not this consumer's any more.
func (d *Delivery) Ack() error { return d.Decide(Decision{Kind: Ack}) }

// Requeue gives the message back, as a failed delivery if failed is set (DEL-9).
func (d *Delivery) Requeue(failed bool) error {
	return d.Decide(Decision{Kind: Requeue, Failed: failed})
}

// RequeueAfter gives the message back, to be ready again after so long (DR-4).
func (d *Delivery) RequeueAfter(failed bool, delay time.Duration) error {
	return d.Decide(Decision{Kind: Requeue, Failed: failed, Delay: delay})
}

// Discard has the message dead-lettered with reason rejected.
func (d *Delivery) Discard() error { return d.Decide(Decision{Kind: Discard, Failed: true}) }

// ExtendAckDeadline asks that the message may stay unacked for so long from now, if that is longer
// than it may (CT-5). It does not wait. The error is ErrStale when the message is not this
// consumer's any more.
func (d *Delivery) ExtendAckDeadline(by time.Duration) error {
	return d.consumer.extendAckDeadline(d, by)
}

// Revoked reports that the message was unacked for too long and is back in the queue (CT-3).
// Decide about it all the same: that changes nothing for the message, and the consumer gets
// no others before.
func (d *Delivery) Revoked() bool { return d.consumer.isRevoked(d) }

// Decide decides about the message, once.
func (d *Delivery) Decide(decision Decision) error { return d.consumer.decide(d, decision) }
