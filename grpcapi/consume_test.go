package grpcapi

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/grpcmem"
	"github.com/quorate/quorate/internal/testnode"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// sentStream keeps what is sent on a Consume stream.
type sentStream struct {
	consumeServer
	ctx       context.Context
	sent      []*brokerv1.ConsumeResponse
	cancelled func() // called with the answer to a cancel; may be nil
}

func (s *sentStream) Context() context.Context { return s.ctx }

func (s *sentStream) Send(r *brokerv1.ConsumeResponse) error { return s.SendMsg(r) }

func (s *sentStream) SendMsg(m any) error {
	p := &grpcmem.Pool{}
	data, err := answerCodec{grpcmem.NewCodec(p), p}.Marshal(m)
	if err != nil {
		return err
	}
	defer data.Free()
	r := &brokerv1.ConsumeResponse{}
	if err := proto.Unmarshal(data.Materialize(), r); err != nil {
		return err
	}
	s.sent = append(s.sent, r)
	if s.cancelled != nil && r.GetCancelled() != nil {
		s.cancelled()
	}
	return nil
}

// fill declares a queue with messages that have this body.
func fill(ctx context.Context, t *testing.T, b *broker.Broker, queue string, messages int, body []byte) {
	t.Helper()
	if err := b.Serving.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeclareQueue(ctx, broker.DeclareQueue{VHost: "/", Name: queue, Durable: true}); err != nil {
		t.Fatal(err)
	}
	stored := make(chan broker.Result, messages)
	for range messages {
		b.Publish(ctx, &broker.Publish{VHost: "/", RoutingKey: queue, Message: message.Message{Body: body}}, func(r broker.Result) { stored <- r })
		if r := <-stored; r.Kind != broker.Confirmed {
			t.Fatalf("%+v", r)
		}
	}
}

// CO-3: the answer to a cancel follows the consumer's last delivery, be it that the writer has not sent it yet, or that
// there was no room for it on this node.
func TestCancelledBehindDeliveries(t *testing.T) {
	const messages = 5
	b, ctx := broker.New(testnode.Start(t), broker.Config{DeliveryBufferBytes: 1000}), testContext(t)
	t.Cleanup(b.Close)
	s := &Server{b: b, cfg: Config{DeliveryBatch: 2, DeliveryBytes: DefaultDeliveryBytes}}
	for queue, o := range map[string]broker.Consume{"auto-ack": {AutoAck: true}, "no room": {Prefetch: messages}} {
		t.Run(queue, func(t *testing.T) {
			fill(ctx, t, b, queue, messages, make([]byte, 600))
			o.VHost, o.Queue = "/", queue
			c, err := b.Consume(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			x := &consumeStream{s: s, c: c, read: make(chan error, 1)}
			out := &sentStream{ctx: context.WithValue(ctx, lifeKey{}, ctx), cancelled: func() { x.read <- nil }}
			x.stream = out
			n := x.carryOut(ctx, task{cancel: true})
			if pending := c.HasPending(); pending == o.AutoAck {
				t.Errorf("deliveries have no room: %v", pending)
			}
			if ended, err := x.notify(n); ended || err != nil {
				t.Errorf("notify: ended %v, %v", ended, err)
			}
			if err := x.write(); err != nil {
				t.Error(err)
			}
			var ids []uint64
			for i, r := range out.sent {
				for _, d := range r.GetDeliveries().GetDeliveries() {
					ids = append(ids, d.GetDeliveryId())
				}
				if is, last := r.GetCancelled() != nil, i == len(out.sent)-1; is != last {
					t.Errorf("response %d of %d is %v", i+1, len(out.sent), r)
				}
			}
			if want := []uint64{1, 2, 3, 4, 5}; !slices.Equal(ids, want) {
				t.Errorf("delivered %d, want %d", ids, want)
			}
		})
	}
}

// CO-3: after a cancel with requeue the queue no longer knows the consumer. When that ends the wait for deliveries
// that had no room, the client gets the answer to its cancel even so, and those behind it.
func TestCancelledWithRequeue(t *testing.T) {
	const messages = 5
	b, ctx := broker.New(testnode.Start(t), broker.Config{DeliveryBufferBytes: 1000}), testContext(t)
	t.Cleanup(b.Close)
	fill(ctx, t, b, "q", messages, make([]byte, 600))
	c, err := b.Consume(ctx, broker.Consume{VHost: "/", Queue: "q", Prefetch: messages})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out := &sentStream{ctx: context.WithValue(ctx, lifeKey{}, ctx)}
	s := &Server{b: b, cfg: Config{DeliveryBatch: messages, DeliveryBytes: DefaultDeliveryBytes}}
	x := &consumeStream{s: s, c: c, stream: out, tasks: make(chan task, 1)}
	x.tasks <- task{settled: &brokerv1.Settled{Request: 7}}
	ended, err := x.notify(x.carryOut(ctx, task{cancel: true, requeue: true}))
	if !ended && err == nil {
		err = x.write()
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range out.sent {
		for _, d := range r.GetDeliveries().GetDeliveries() {
			got = append(got, fmt.Sprint("delivery ", d.GetDeliveryId()))
		}
		switch {
		case r.GetCancelled() != nil:
			got = append(got, r.GetCancelled().GetCause())
		case r.GetSettled() != nil:
			got = append(got, fmt.Sprint("settled ", r.GetSettled().GetRequest()))
		}
	}
	if want := []string{"delivery 1", "delivery 2", "client", "settled 7"}; !slices.Equal(got, want) {
		t.Errorf("the client gets %q, want %q", got, want)
	}
}

// G4, CN-1: settlements that come after the end of their consumer are not answered as stored. The client is notified of
// the end instead.
func TestSettlementAfterTheEnd(t *testing.T) {
	b, ctx := brokerOf(t, testnode.Start(t), false), testContext(t)
	const messages = 3
	fill(ctx, t, b, "q", messages, nil)
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
