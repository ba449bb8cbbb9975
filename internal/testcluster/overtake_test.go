package testcluster_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// published waits until a node has routed as many messages.
func published(t *testing.T, c *testcluster.Cluster, node int, want uint64) {
	t.Helper()
	testcluster.Poll(t, fmt.Sprintf("%d messages are routed", want), func() error {
		if n := c.Broker(node).Counters().Published; n != want {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// PUB-6: a producer's message waits for room in the window of a queue without a leader, and its client goes. The
// messages behind it, which have room, do not go before it: sent again, it is stored, and all are in order.
func TestNothingOvertakes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts nodes")
	}
	const low = 1 << 20
	c := testcluster.StartAs(t, 3, testcluster.Settings{DiskLow: low})
	p, owner := dial(t, c.Addrs()[0]), dial(t, c.Addrs()[2])
	owner.declare(t, "q", number("x-quorum-initial-group-size", 1))
	testcluster.Poll(t, "the node knows the queue", func() error {
		_, err := p.admin.DeclareQueue(testContext(t), &brokerv1.DeclareQueueRequest{Name: "q", Passive: true})
		return err
	})
	c.Kill(2)
	numbered := func(n uint64, body []byte) *brokerv1.PublishRequest {
		return &brokerv1.PublishRequest{Sequence: n, Message: &brokerv1.Message{RoutingKey: "q", Body: body}}
	}
	// A queue's window is an eighth of the free space below which a disk is low (PUB-10).
	first, large, small := make([]byte, low/8-20<<10), bytes.Repeat([]byte("x"), 40<<10), []byte("behind it")
	other, err := p.Publish(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Send(numbered(1, first)); err != nil {
		t.Fatal(err)
	}
	published(t, c, 0, 1)

	frame := numbered(5, large)
	frame.More = []*brokerv1.PublishRequest{numbered(6, small)}
	open := &brokerv1.PublishRequest{Producer: slices.Repeat([]byte{7}, 16)}
	ctx, gone := context.WithCancel(t.Context())
	defer gone()
	stream, err := p.Publish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*brokerv1.PublishRequest{open, frame} {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	published(t, c, 0, 2) // it waits for room
	gone()
	testcluster.Poll(t, "it is given up", func() error {
		if n := c.Broker(0).Counters().Rejected; n != 1 {
			return fmt.Errorf("%d rejected", n)
		}
		return nil
	})

	c.Restart(2)
	responses, err := publishRequests(t, p, open, frame)
	if err != nil || len(responses) != 2 {
		t.Fatalf("%d responses, %v", len(responses), err)
	}
	for _, r := range responses {
		if r.GetResult().GetResult() != brokerv1.PublishResult_RESULT_CONFIRMED {
			t.Errorf("message %d: %v", r.GetSequence(), r.GetResult())
		}
	}
	for i, want := range [][]byte{first, large, small} {
		got, err := p.Get(testContext(t), &brokerv1.GetRequest{Queue: "q", AutoAck: true})
		if err != nil {
			t.Fatal(err)
		}
		if body := got.GetDelivery().GetBody(); !bytes.Equal(body, want) {
			t.Fatalf("message %d has %d bytes, want %d", i, len(body), len(want))
		}
	}
}
