package grpcapi

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/grpcmem"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Field numbers of proto/broker/v1 that are written by hand.
const (
	fieldDeliveries = 2 // ConsumeResponse
	fieldDelivery   = 1 // Deliveries
	fieldBody       = 5 // Delivery
)

// outgoing is a response of deliveries, and what it is made of. All consumers' streams share a few: gRPC has encoded a
// response when SendMsg returns. The zero value is empty.
type outgoing struct {
	taken      []broker.Delivery
	deliveries []*outgoingDelivery
	all        []*brokerv1.Delivery // those of deliveries, as many
	sizes      []int                // of deliveries, for encode
	writer     grpcmem.Writer
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

// message returns what was taken as a message for answerCodec: itself if it has large bodies, which gRPC then sends from
// where they are, or else a response.
func (o *outgoing) message() any {
	response := o.response()
	for i := range o.taken {
		if grpcmem.Shared(o.taken[i].Message.Body) > 0 {
			return o
		}
	}
	return response
}

// encode writes the response, the body of each delivery as its last field.
func (o *outgoing) encode(p *grpcmem.Pool) (mem.BufferSlice, error) {
	field := func(number protowire.Number, bytes int) int {
		return protowire.SizeTag(number) + protowire.SizeBytes(bytes)
	}
	list, shared := 0, 0
	o.sizes = o.sizes[:0]
	for i, d := range o.all[:len(o.taken)] {
		body := o.taken[i].Message.Body
		d.Body = nil
		size := proto.Size(d) + field(fieldBody, len(body))
		o.sizes = append(o.sizes, size)
		list += field(fieldDelivery, size)
		shared += grpcmem.Shared(body)
	}
	w, whole := &o.writer, field(fieldDeliveries, list)
	w.Begin(p, whole-shared)
	w.B = protowire.AppendVarint(protowire.AppendTag(w.B, fieldDeliveries, protowire.BytesType), uint64(list))
	for i, d := range o.all[:len(o.taken)] {
		w.B = protowire.AppendVarint(protowire.AppendTag(w.B, fieldDelivery, protowire.BytesType), uint64(o.sizes[i]))
		var err error
		if w.B, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(w.B, d); err != nil {
			w.Drop()
			return nil, err
		}
		w.Data(fieldBody, o.taken[i].Message.Body)
	}
	return w.Finish(whole)
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
