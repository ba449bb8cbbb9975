package testcluster_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// consumer is a Consume stream in a test.
type consumer struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[brokerv1.ConsumeRequest, brokerv1.ConsumeResponse]
	stop   context.CancelFunc
	got    []*brokerv1.Delivery // and not yet taken by next
}

func (p peer) open(t *testing.T, o *brokerv1.ConsumeOpen) *consumer {
	t.Helper()
	ctx, stop := context.WithCancel(testContext(t))
	stream, err := p.Consume(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := &consumer{t: t, stream: stream, stop: stop}
	c.send(open(o))
	if res, err := stream.Recv(); err != nil || res.GetOpened() == nil {
		t.Fatal(res, err)
	}
	return c
}

func (c *consumer) send(r *brokerv1.ConsumeRequest) {
	c.t.Helper()
	if err := c.stream.Send(r); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next delivery.
func (c *consumer) next() *brokerv1.Delivery {
	c.t.Helper()
	for len(c.got) == 0 {
		res, err := c.stream.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		c.got = res.GetDeliveries().GetDeliveries()
	}
	d := c.got[0]
	c.got = c.got[1:]
	return d
}

// settle decides and waits until that is committed; no delivery may come in between.
func (c *consumer) settle(s *brokerv1.Settlement) {
	c.t.Helper()
	s.Request = 1
	c.send(settlement(s))
	res, err := c.stream.Recv()
	if err != nil || res.GetSettled() == nil || len(res.GetSettled().GetUnknown()) > 0 {
		c.t.Fatal(res, err)
	}
}

func credit(n uint32) *brokerv1.ConsumeRequest {
	return &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Credit{Credit: &brokerv1.ConsumeCredit{Add: n}}}
}

func TestConsume(t *testing.T) {
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
	t.Run("auto-ack", func(t *testing.T) { testAutoAck(t, peers) })
	t.Run("explicit credit", func(t *testing.T) { testExplicitCredit(t, peers) })
	t.Run("failed deliveries", func(t *testing.T) { testFailures(t, peers) })
	t.Run("annotations", func(t *testing.T) { testAnnotations(t, peers) })
	t.Run("cancel with requeue", func(t *testing.T) { testCancel(t, peers) })
}

// DEL-4: more than the credit that one grant covers.
func testAutoAck(t *testing.T, peers []peer) {
	const n = 5000
	peers[0].declare(t, "auto")
	peers[0].publish(t, "auto", n)
	c := peers[1].open(t, &brokerv1.ConsumeOpen{Queue: "auto", AutoAck: true})
	defer c.stop()
	for i := range n {
		if d := c.next(); string(d.GetBody()) != fmt.Sprint("auto ", i) || d.GetDeliveryId() != uint64(i+1) {
			t.Fatalf("delivery %d is %v", i, d)
		}
	}
	if m := peers[2].stats(t, "auto").GetStats().GetMessages(); m != 0 {
		t.Errorf("%d messages left", m)
	}
}

// Credit allows just as many as were granted.
func testExplicitCredit(t *testing.T, peers []peer) {
	peers[0].declare(t, "credit")
	peers[0].publish(t, "credit", 10)
	c := peers[1].open(t, &brokerv1.ConsumeOpen{Queue: "credit", ExplicitCredit: true})
	defer c.stop()
	ack := brokerv1.Outcome_OUTCOME_ACK
	for i := range 5 {
		c.send(credit(2))
		first, second := c.next(), c.next()
		if string(second.GetBody()) != fmt.Sprint("credit ", 2*i+1) {
			t.Fatalf("got %v and %v", first, second)
		}
		// A delivery beyond the credit would come before the answer.
		c.settle(&brokerv1.Settlement{DeliveryIds: []uint64{first.GetDeliveryId(), second.GetDeliveryId()}, Outcome: ack})
	}
}

// DEL-8, DEL-9: the end of the stream fails what is unsettled, and the limit discards it.
func testFailures(t *testing.T, peers []peer) {
	peers[0].declare(t, "poison box")
	peers[0].declare(t, "poison", number("x-delivery-limit", 2), text("x-dead-letter-exchange", ""),
		text("x-dead-letter-routing-key", "poison box"), text("x-dead-letter-strategy", "at-least-once"), text("x-overflow", "reject-publish"))
	peers[0].publish(t, "poison", 1)
	for i := range uint32(3) {
		c := peers[i].open(t, &brokerv1.ConsumeOpen{Queue: "poison"})
		if d := c.next(); d.GetDeliveryCount() != i || d.GetAcquiredCount() != i || d.GetRedelivered() != (i > 0) {
			t.Fatalf("delivery %d is %v", i, d)
		}
		c.stop()
	}
	dead := peers[1].open(t, &brokerv1.ConsumeOpen{Queue: "poison box"})
	defer dead.stop()
	d := dead.next()
	if x := d.GetDeaths(); len(x) != 1 || x[0].GetReason() != "delivery_limit" || x[0].GetDeliveryCount() != 3 || d.GetRedelivered() {
		t.Errorf("the dead letter is %v", d)
	}
}

// DEL-11: annotations of returns and discards show at redelivery and after the death.
func testAnnotations(t *testing.T, peers []peer) {
	peers[0].declare(t, "noted dead")
	peers[0].declare(t, "noted", text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", "noted dead"))
	peers[0].publish(t, "noted", 1)
	c := peers[1].open(t, &brokerv1.ConsumeOpen{Queue: "noted"})
	defer c.stop()
	note := func(name, value string) *brokerv1.Table {
		return &brokerv1.Table{Fields: []*brokerv1.Field{text(name, value)}}
	}
	c.next()
	c.send(settlement(&brokerv1.Settlement{DeliveryIds: []uint64{1}, Outcome: brokerv1.Outcome_OUTCOME_REQUEUE, Annotations: note("x-a", "1")}))
	d := c.next()
	if f := d.GetAnnotations().GetFields(); len(f) != 1 || f[0].GetName() != "x-a" || d.GetDeliveryCount() != 0 || d.GetAcquiredCount() != 1 {
		t.Fatalf("redelivered %v", d)
	}
	c.settle(&brokerv1.Settlement{DeliveryIds: []uint64{2}, Outcome: brokerv1.Outcome_OUTCOME_DISCARD, Annotations: note("x-b", "2")})
	dead := peers[2].open(t, &brokerv1.ConsumeOpen{Queue: "noted dead"})
	defer dead.stop()
	names := map[string]bool{}
	for _, f := range dead.next().GetAnnotations().GetFields() {
		names[f.GetName()] = true
	}
	if len(names) == 0 || !names["x-b"] {
		t.Errorf("the dead letter has annotations %v", names)
	}
	if !names["x-a"] {
		t.Errorf("the annotation of the return is lost: %v", names)
	}
}

// CO-3: a cancel with requeue gives back at once, not failed.
func testCancel(t *testing.T, peers []peer) {
	peers[0].declare(t, "cancelled")
	peers[0].publish(t, "cancelled", 1)
	c := peers[1].open(t, &brokerv1.ConsumeOpen{Queue: "cancelled"})
	defer c.stop()
	c.next()
	c.send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Cancel{Cancel: &brokerv1.ConsumeCancel{Requeue: true}}})
	if res, err := c.stream.Recv(); err != nil || res.GetCancelled().GetCause() != "client" {
		t.Fatal(res, err)
	}
	other := peers[2].open(t, &brokerv1.ConsumeOpen{Queue: "cancelled"})
	defer other.stop()
	if d := other.next(); d.GetDeliveryCount() != 0 || !d.GetRedelivered() {
		t.Errorf("redelivered %v", d)
	}
}
