package testcluster_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// A consumer that reads nothing is given what its prefetch allows and no more, and holds up
// nobody else: neither the other consumers and the publishers of its queue nor another queue's,
// on the same connection and node as well as on others. Settlements that it sends, and whose
// results it does not read, are not taken without end.
func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	peers := make([]peer, 3)
	for i, addr := range c.Addrs() {
		peers[i] = dial(t, addr)
		peers[i].all = &peers
	}
	const (
		prefetch = 200
		messages = 1000
	)
	peers[0].declare(t, "slow")
	peers[0].declare(t, "other")
	// In bodies this is many times what a stream may have under way.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stalled, err := peers[0].Consume(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stalled.Send(open(&brokerv1.ConsumeOpen{Queue: "slow", Prefetch: prefetch})); err != nil {
		t.Fatal(err)
	}
	if res, err := stalled.Recv(); err != nil || res.GetOpened() == nil {
		t.Fatal(res, err)
	}
	peers[1].publishBodies(t, "slow", prefetch, 64<<10)
	testcluster.Poll(t, "the one that reads nothing has all it may have", func() error {
		if s := peers[2].stats(t, "slow").GetStats(); s.GetMessagesUnacknowledged() != prefetch {
			return fmt.Errorf("%d messages, %d are unsettled", s.GetMessages(), s.GetMessagesUnacknowledged())
		}
		return nil
	})

	const flood = 100_000
	var sent atomic.Int64
	ended := make(chan struct{})
	unknown := make([]uint64, 100)
	for i := range unknown {
		unknown[i] = 1<<40 + uint64(i)
	}
	go func() {
		defer close(ended)
		for i := range uint64(flood) {
			s := &brokerv1.Settlement{DeliveryIds: unknown, Outcome: brokerv1.Outcome_OUTCOME_ACK, Request: i + 1}
			if stalled.Send(settlement(s)) != nil {
				return
			}
			sent.Add(1)
		}
	}()

	for i, p := range peers {
		name := fmt.Sprintf("on node %d", i)
		for _, queue := range []string{"slow", "other"} {
			p.publish(t, queue, messages)
			got := p.consume(t, queue, messages, brokerv1.Outcome_OUTCOME_ACK)
			if len(got) != messages {
				t.Fatalf("%s %d of %d messages of queue %q came", name, len(got), messages, queue)
			}
		}
	}
	if s := peers[2].stats(t, "slow").GetStats(); s.GetMessagesUnacknowledged() != prefetch || s.GetMessages() != prefetch {
		t.Errorf("in the end %d messages, %d are unsettled, want %d that one consumer holds", s.GetMessages(), s.GetMessagesUnacknowledged(), prefetch)
	}
	// The flood stands still for good; for how long it is looked at decides nothing when it does.
	for last, still := sent.Load(), 0; still < 20; still++ {
		time.Sleep(50 * time.Millisecond)
		if n := sent.Load(); n != last {
			last, still = n, 0
		}
	}
	if n := sent.Load(); n == flood {
		t.Errorf("all of %d settlements were taken from a client that reads no result", n)
	}
	stop()
	<-ended
	if got := peers[2].consume(t, "slow", prefetch, brokerv1.Outcome_OUTCOME_ACK); len(got) != prefetch {
		t.Errorf("%d deliveries after it, want %d", len(got), prefetch)
	}
}

// A stream that has no prefetch and reads nothing costs its node no more than its bound; then
// it continues in order. Others of its queue continue meanwhile.
func TestSlowStreamIsBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	const bound, n, size, others = 1 << 20, 400, 64 << 10, 50
	c := testcluster.StartWith(t, 3, broker.Config{DeliveryBufferBytes: bound})
	peers := make([]peer, 3)
	for i, addr := range c.Addrs() {
		peers[i] = dial(t, addr)
		peers[i].all = &peers
	}
	peers[0].declare(t, "q")
	peers[0].publishBodies(t, "q", n, size)
	away := (ledBy(t, c, peers[0], "q") + 1) % 3 // deliveries come from another node
	slow, err := peers[away].Consume(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := slow.Send(open(&brokerv1.ConsumeOpen{Queue: "q"})); err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the stream has what it may have", func() error {
		if held, stops := c.Broker(away).Buffers.Held(); held < bound/2 || stops == 0 {
			return fmt.Errorf("%d bytes are held, %d stops", held, stops)
		}
		return nil
	})
	if held, _ := c.Broker(away).Buffers.Held(); held > bound+size+1024 {
		t.Errorf("%d bytes are held, want at most %d", held, bound+size)
	}
	for i := range others {
		if got, err := peers[2].Get(testContext(t), &brokerv1.GetRequest{Queue: "q", AutoAck: true}); err != nil || got.GetDelivery() == nil {
			t.Fatalf("another client's message %d: %v, %v", i, got, err)
		}
	}
	last := uint64(0)
	for last < n-others {
		res, err := slow.Recv()
		if err != nil {
			t.Fatalf("after delivery %d: %v", last, err)
		}
		for _, d := range res.GetDeliveries().GetDeliveries() {
			if last++; d.GetDeliveryId() != last || len(d.GetBody()) != size {
				t.Fatalf("delivery %d with %d bytes, want number %d", d.GetDeliveryId(), len(d.GetBody()), last)
			}
		}
	}
}

// publishBodies publishes n messages with a body of so many bytes.
func (p peer) publishBodies(t *testing.T, queue string, n, size int) {
	t.Helper()
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	stream, err := p.Publish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, size)
	for i := range n {
		req := &brokerv1.PublishRequest{Sequence: uint64(i + 1), Message: &brokerv1.Message{RoutingKey: queue, Body: body}}
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		res, err := stream.Recv()
		if r := res.GetResult().GetResult(); err != nil || r != brokerv1.PublishResult_RESULT_CONFIRMED {
			t.Fatal(res, err)
		}
	}
}
