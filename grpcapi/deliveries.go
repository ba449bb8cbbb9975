package grpcapi

import (
	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// outgoing is a response of deliveries, and what it is made of. All consumers' streams share a few: gRPC has encoded a
// response when Send returns. The zero value is empty.
type outgoing struct {
	taken      []broker.Delivery
	deliveries []*outgoingDelivery
	all        []*brokerv1.Delivery // those of deliveries, as many
}

// outgoingDelivery is a delivery with its properties, in one piece of memory.
type outgoingDelivery struct {
	delivery   brokerv1.Delivery
	properties brokerv1.Properties
}

// newOutgoing returns one that is not in use, a used one if there is one.
func (s *Server) newOutgoing() *outgoing {
	if o, is := s.outgoing.Get().(*outgoing); is {
		return o
	}
	return &outgoing{}
}

// release forgets what o has, so that nothing of the messages is kept, and lets others use it.
func (s *Server) release(o *outgoing) {
	for _, d := range o.deliveries[:min(len(o.taken), len(o.deliveries))] { // an error may have come before they were filled
		d.delivery.Reset()
		d.properties.Reset()
	}
	clear(o.taken)
	o.taken = o.taken[:0]
	s.outgoing.Put(o)
}

// response returns a response with what was taken.
func (o *outgoing) response() *brokerv1.ConsumeResponse {
	for len(o.all) < len(o.taken) {
		d := &outgoingDelivery{}
		o.deliveries, o.all = append(o.deliveries, d), append(o.all, &d.delivery)
	}
	for i := range o.taken {
		setDelivery(&o.deliveries[i].delivery, &o.deliveries[i].properties, &o.taken[i])
	}
	return &brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Deliveries{
		Deliveries: &brokerv1.Deliveries{Deliveries: o.all[:len(o.taken)]},
	}}
}
