package grpcapi

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/grpcmem"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// protoBytes returns a response of deliveries as package proto writes it.
func protoBytes(t testing.TB, ds []broker.Delivery) []byte {
	t.Helper()
	list := &brokerv1.Deliveries{}
	for i := range ds {
		d := &brokerv1.Delivery{}
		setDelivery(d, &brokerv1.Properties{}, &ds[i])
		list.Deliveries = append(list.Deliveries, d)
	}
	b, err := proto.Marshal(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Deliveries{Deliveries: list}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

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
		want := protoBytes(t, o.taken)
		data, err := codec.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := data.Materialize(); !bytes.Equal(got, want) {
			t.Errorf("response %d is\n%x, want\n%x", i, got, want)
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

// deliveryOf returns a delivery that has the fields whose bits are set.
func deliveryOf(bits uint16) broker.Delivery {
	var d broker.Delivery
	m := &d.Message
	for i, set := range []func(){
		func() { d.ID = 1<<40 + 7 },
		func() { m.Exchange = "exchange" },
		func() { m.Exchange += "\xff" },
		func() { m.RoutingKeys = []string{"key", "cc"} },
		func() { m.RoutingKeys = []string{"raw \xfe key"} },
		func() {
			m.Properties = message.Properties{Has: message.HasAppID, ContentType: "t", Priority: 9, Timestamp: math.MaxUint64}
		},
		func() { m.MessageID = "raw \xfd id" },
		func() { m.Headers = message.Table{{Name: "h", Value: message.String("v")}} },
		func() { m.Body = []byte("body") },
		func() { m.Body = bytes.Repeat([]byte("x"), 5000) },
		func() { d.Redelivered = true },
		func() { d.DeliveryCount = 1 },
		func() { d.AcquiredCount = math.MaxUint32 },
		func() {
			m.Deaths = []message.Death{{Queue: "q", Reason: "rejected", Count: 300, RoutingKeys: []string{"a", ""}}, {}}
		},
		func() {
			m.Deaths = append(m.Deaths, message.Death{HasTTL: true, FirstTimeMs: -1, LastTimeMs: 1, Exchange: "e", DeliveryCount: 1, AcquiredCount: 2})
		},
		func() { m.Annotations = message.Table{{Name: "x-a", Value: message.Int64(-1)}, {Name: "x-b"}} },
	} {
		if bits>>i&1 != 0 {
			set()
		}
	}
	return d
}

// A delivery is written as package proto writes it, whatever fields it has, also where another one was written before.
func TestDeliveryBytes(t *testing.T) {
	s, pool := &Server{}, &grpcmem.Pool{}
	for bits := range 1 << 16 {
		if bits%41 != 0 && bits&(bits-1) != 0 && testing.Short() {
			continue
		}
		o := s.newOutgoing()
		both := func() []broker.Delivery {
			return []broker.Delivery{deliveryOf(uint16(bits)), deliveryOf(^uint16(bits))}
		}
		want := protoBytes(t, both()) // it may change texts that are not UTF-8
		o.taken = append(o.taken, both()...)
		data, err := o.encode(pool)
		if err != nil {
			t.Fatalf("fields %016b: %v", bits, err)
		}
		if got := data.Materialize(); !bytes.Equal(got, want) {
			t.Fatalf("fields %016b are written as\n%.200x, want\n%.200x", bits, got, want)
		}
		data.Free()
		s.release(o)
	}
}

func BenchmarkOutgoing(b *testing.B) {
	s, pool := &Server{}, &grpcmem.Pool{}
	codec := answerCodec{grpcmem.NewCodec(pool), pool}
	body := bytes.Repeat([]byte("x"), 1000)
	b.ReportAllocs()
	for b.Loop() {
		o := s.newOutgoing()
		for i := range 16 {
			o.taken = append(o.taken, broker.Delivery{ID: uint64(i + 1), Message: message.Message{
				Properties: message.Properties{MessageID: "m", DeliveryMode: 2}, Exchange: "e", RoutingKeys: keysOfBenchmark, Body: body,
			}})
		}
		data, err := codec.Marshal(o)
		if err != nil {
			b.Fatal(err)
		}
		data.Free()
		s.release(o)
	}
}

var keysOfBenchmark = []string{"key"}
