package grpcapi

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/grpcmem"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Clients read the same deliveries whether bodies are copied or sent from where they are, also from a response that was
// used before.
func TestOutgoing(t *testing.T) {
	s := &Server{}
	p := &grpcmem.Pool{}
	codec := answerCodec{grpcmem.NewCodec(p), p}
	large, small := bytes.Repeat([]byte("large"), 20_000), []byte("small")
	for i, bodies := range [][][]byte{{small}, {large}, {nil}, {small, nil, large, small, large}, {large, nil}, {small, small}} {
		o := s.newOutgoing()
		for j, body := range bodies {
			o.taken = append(o.taken, broker.Delivery{ID: uint64(j + 1), Redelivered: j%2 == 0, Message: message.Message{
				Exchange: "e", RoutingKeys: []string{"k"}, Body: body,
				Properties: message.Properties{Has: message.HasType | message.HasPriority, Type: "type", Priority: 3},
				Headers:    message.Table{{Name: "h", Value: message.String("v")}},
			}})
		}
		want := proto.Clone(o.response())
		data, err := codec.Marshal(o.message())
		if err != nil {
			t.Fatal(err)
		}
		var got brokerv1.ConsumeResponse
		if err := proto.Unmarshal(data.Materialize(), &got); err != nil || !proto.Equal(&got, want) {
			t.Errorf("response %d reads %v, %v", i, &got, err)
		}
		at := func(body []byte) bool {
			return slices.ContainsFunc(data, func(b mem.Buffer) bool {
				d := b.ReadOnlyData()
				return len(d) == len(body) && &d[0] == &body[0]
			})
		}
		if slices.ContainsFunc(bodies, func(b []byte) bool { return len(b) == len(large) }) != at(large) {
			t.Errorf("response %d copies its large bodies", i)
		}
		data.Free()
		s.release(o)
	}
}
