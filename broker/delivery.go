package broker

import (
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/message"
)

// Delivery is a message that is handed to a client.
type Delivery struct {
	ID            uint64 // numbers the deliveries of a consumer from 1
	Message       message.Message
	Redelivered   bool // DEL-10
	DeliveryCount uint32
	AcquiredCount uint32
}

// decodeDelivery decodes a stored message and adds the annotations that returns and discards gave
// it. It also returns these annotations alone.
func decodeDelivery(out *Delivery, d *traffic.Delivery) (added message.Table, err error) {
	*out = Delivery{
		ID: uint64(d.MsgID), Redelivered: d.AcquiredCount > 0, DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
	}
	if err := message.DecodeInto(&out.Message, d.Message); err != nil {
		return nil, err
	}
	if d.Annotations == nil {
		return nil, nil
	}
	return out.Message.Annotate(d.Annotations)
}

// Headers returns the headers that AMQP clients see: the message's own, what returns and discards added (DEL-11), its
// deaths (DL-32, DL-34) and, unless the queue is a classic queue, the counts (DEL-10).
func (d *Delivery) Headers(classic bool) message.Table {
	h := d.Message.Headers.Merged(d.Message.Annotations).Merged(message.DeathHeaders(&d.Message))
	if classic || d.AcquiredCount == 0 && d.DeliveryCount == 0 {
		return h
	}
	h = h.Clone()
	if d.AcquiredCount > 0 {
		h.Set("x-acquired-count", message.Int64(int64(d.AcquiredCount)))
	}
	if d.DeliveryCount > 0 {
		h.Set("x-delivery-count", message.Int64(int64(d.DeliveryCount)))
	}
	return h
}

// errUnreadable returns the error about a stored message that cannot be decoded.
func errUnreadable(err error, about failure.Error) error {
	about.Class, about.Reason = failure.Internal, "a stored message cannot be read: "+err.Error()
	return &about
}
