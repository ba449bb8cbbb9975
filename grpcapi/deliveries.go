package grpcapi

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/grpcmem"
)

// Field numbers of proto/broker/v1 that lead to a delivery.
const (
	fieldDeliveries = 2 // ConsumeResponse
	fieldDelivery   = 1 // Deliveries
)

// outgoing is a response of deliveries, and what it is made of. It is encoded by hand, as brokerv1.ConsumeResponse
// would be: gRPC then sends large bodies from where they are. All consumers' streams share a few: gRPC has encoded a
// response when SendMsg returns. The zero value is empty.
type outgoing struct {
	taken  []broker.Delivery
	parts  []*deliveryParts // of as many as a response had at most
	writer grpcmem.Writer
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
	for _, p := range o.parts[:min(len(o.taken), len(o.parts))] { // an error may have come before they were filled
		p.release()
	}
	clear(o.taken)
	o.taken = o.taken[:0]
	s.outgoing.Put(o)
}

// encode writes the response. It refers to large bodies.
func (o *outgoing) encode(pool *grpcmem.Pool) (mem.BufferSlice, error) {
	list, shared := 0, 0
	for i := range o.taken {
		if i == len(o.parts) {
			o.parts = append(o.parts, &deliveryParts{})
		}
		list += lengthSize(fieldDelivery, o.parts[i].measure(&o.taken[i]))
		shared += grpcmem.Shared(o.taken[i].Message.Body)
	}
	w, whole := &o.writer, lengthSize(fieldDeliveries, list)
	w.Begin(pool, whole-shared)
	w.B = appendLength(w.B, fieldDeliveries, list)
	for i := range o.taken {
		w.B = appendLength(w.B, fieldDelivery, o.parts[i].size)
		if err := o.parts[i].write(w, &o.taken[i]); err != nil {
			w.Drop()
			return nil, err
		}
	}
	return w.Finish(whole)
}

// lengthSize is the size of a field of n bytes.
func lengthSize(number protowire.Number, n int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(n)
}

// appendLength begins a field of n bytes.
func appendLength(b []byte, number protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(n))
}
