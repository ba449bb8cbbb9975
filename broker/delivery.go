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
func decodeDelivery(d *traffic.Delivery) (_ Delivery, added message.Table, err error) {
	m, err := message.Decode(d.Message)
	if err != nil {
		return Delivery{}, nil, err
	}
	if d.Annotations != nil {
		if added, err = m.Annotate(d.Annotations); err != nil {
			return Delivery{}, nil, err
		}
	}
	return Delivery{
		ID: uint64(d.MsgID), Message: *m, Redelivered: d.AcquiredCount > 0,
		DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
	}, added, nil
}

// errUnreadable returns the error about a stored message that cannot be decoded.
func errUnreadable(err error, about failure.Error) error {
	about.Class, about.Reason = failure.Internal, "a stored message cannot be read: "+err.Error()
	return &about
}
