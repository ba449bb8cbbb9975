package grpcapi

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/testnode"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// sentStream keeps what is sent on a Consume stream.
type sentStream struct {
	consumeServer
	sent []*brokerv1.ConsumeResponse
}

func (s *sentStream) Send(r *brokerv1.ConsumeResponse) error {
	s.sent = append(s.sent, r)
	return nil
}

// G4, CN-1: settlements that come after the end of their consumer are not answered as stored. The client is notified of
// the end instead.
func TestSettlementAfterTheEnd(t *testing.T) {
	b, ctx := brokerOf(t, testnode.Start(t), false), testContext(t)
	if err := b.Serving.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeclareQueue(ctx, broker.DeclareQueue{VHost: "/", Name: "q", Durable: true}); err != nil {
		t.Fatal(err)
	}
	const messages = 3
	stored := make(chan broker.Result, messages)
	for range messages {
		b.Publish(ctx, &broker.Publish{VHost: "/", RoutingKey: "q"}, func(r broker.Result) { stored <- r })
		if r := <-stored; r.Kind != broker.Confirmed {
			t.Fatalf("%+v", r)
		}
	}
	c, err := b.Consume(ctx, broker.Consume{VHost: "/", Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ready := func() {
		t.Helper()
		select {
		case <-c.Ready():
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	var got []broker.Delivery
	for len(got) < messages {
		ready()
		if got, err = c.Take(got, messages, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.DeleteQueue(ctx, "/", "q", broker.Deletion{}); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		ready()
		_, err = c.Take(nil, 1, 1<<20)
	}
	out := &sentStream{}
	x := &consumeStream{c: c, stream: out, tasks: make(chan task, 1)}
	for _, row := range []struct {
		s       *brokerv1.Settlement
		unknown []uint64
	}{
		{&brokerv1.Settlement{DeliveryIds: []uint64{2, 7}}, []uint64{7, 2}},
		{&brokerv1.Settlement{UpTo: 3}, []uint64{1, 3}},
		{&brokerv1.Settlement{UpTo: 3}, nil},
	} {
		row.s.Outcome, row.s.Request = brokerv1.Outcome_OUTCOME_ACK, 1
		settled, err := x.settle(row.s)
		if err != nil || !slices.Equal(settled.GetUnknown(), row.unknown) {
			t.Errorf("%v: %v unknown, %v; want %v", row.s, settled.GetUnknown(), err, row.unknown)
		}
		n := x.carryOut(ctx, task{settled: settled})
		if ended, err := x.notify(n); !ended || err != nil {
			t.Errorf("%v: ended %v, %v", row.s, ended, err)
		}
	}
	for _, r := range out.sent {
		if r.GetCancelled().GetCause() != "queue deleted" {
			t.Errorf("the client gets %v", r)
		}
	}
}
