package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

const testTimeout = 2 * time.Minute

// peer is a client's connection to one node.
type peer struct {
	brokerv1.BrokerClient
	admin brokerv1.AdminClient
	all   *[]peer // of the cluster; nil: this one alone
	tx    brokerv1.TransactionsClient
}

// guest is the login of the first user.
type guest struct{}

func (guest) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}, nil
}

func (guest) RequireTransportSecurity() bool { return false }

func dial(t *testing.T, addr string) peer {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(guest{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
	})
	return peer{brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc), nil, brokerv1.NewTransactionsClient(cc)}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func text(name, value string) *brokerv1.Field {
	return &brokerv1.Field{Name: name, Value: &brokerv1.Value{Kind: &brokerv1.Value_String_{String_: value}}}
}

func number(name string, value int64) *brokerv1.Field {
	return &brokerv1.Field{Name: name, Value: &brokerv1.Value{Kind: &brokerv1.Value_Int64{Int64: value}}}
}

// declare declares a queue and waits until every node routes to it.
func (p peer) declare(t *testing.T, name string, args ...*brokerv1.Field) {
	t.Helper()
	_, err := p.admin.DeclareQueue(testContext(t), &brokerv1.DeclareQueueRequest{Name: name, Arguments: &brokerv1.Table{Fields: args}})
	if err != nil {
		t.Fatal(err)
	}
	if p.all == nil {
		return
	}
	for _, other := range *p.all {
		testcluster.Poll(t, "every node knows the queue", func() error {
			_, err := other.admin.DeclareQueue(testContext(t), &brokerv1.DeclareQueueRequest{Name: name, Passive: true})
			return err
		})
	}
}

// publish sends n messages through one stream and waits until all are confirmed.
func (p peer) publish(t *testing.T, queue string, n int) {
	t.Helper()
	stream, err := p.Publish(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			err := stream.Send(&brokerv1.PublishRequest{
				Sequence: uint64(i + 1),
				Message:  &brokerv1.Message{RoutingKey: queue, Body: fmt.Appendf(nil, "%s %d", queue, i)},
			})
			if err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	seen := make(map[uint64]bool)
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := res.GetResult().GetResult(); r != brokerv1.PublishResult_RESULT_CONFIRMED || seen[res.GetSequence()] {
			t.Fatalf("message %d: %v, seen %v", res.GetSequence(), res.GetResult(), seen[res.GetSequence()])
		}
		seen[res.GetSequence()] = true
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if len(seen) != n {
		t.Fatalf("%d results of %d messages", len(seen), n)
	}
}

// consume opens a consumer and decides alike about n deliveries, which it returns.
func (p peer) consume(t *testing.T, queue string, n int, o brokerv1.Outcome) []*brokerv1.Delivery {
	t.Helper()
	stream, err := p.Consume(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	open := &brokerv1.ConsumeOpen{Queue: queue, Prefetch: 100}
	if err := stream.Send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Open{Open: open}}); err != nil {
		t.Fatal(err)
	}
	var out []*brokerv1.Delivery
	for request := uint64(0); ; {
		res, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %d deliveries: %v", len(out), err)
		}
		if s := res.GetSettled(); s != nil && s.GetRequest() == uint64(n) {
			break
		}
		s := &brokerv1.Settlement{Outcome: o}
		for _, d := range res.GetDeliveries().GetDeliveries() {
			if len(out) == n {
				break // the rest returns when the stream ends
			}
			out = append(out, d)
			s.DeliveryIds = append(s.DeliveryIds, d.GetDeliveryId())
		}
		if len(s.GetDeliveryIds()) == 0 {
			continue
		}
		request = uint64(len(out))
		s.Request = request
		if err := stream.Send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Settlement{Settlement: s}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("the stream ended with %v", err)
	}
	return out
}

func (p peer) stats(t *testing.T, queue string) *brokerv1.Queue {
	t.Helper()
	res, err := p.admin.GetQueue(testContext(t), &brokerv1.GetQueueRequest{Name: queue})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetQueue()
}

// ledBy waits until a queue has a leader, and returns which node that is.
func ledBy(t *testing.T, c *testcluster.Cluster, p peer, queue string) (i int) {
	t.Helper()
	testcluster.Poll(t, "the queue has a leader", func() error {
		if i = c.Index(p.stats(t, queue).GetLeader()); i < 0 {
			return errors.New("it has none")
		}
		return nil
	})
	return i
}

func TestThreeNodes(t *testing.T) {
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
	t.Run("publish and consume", func(t *testing.T) { testPublishConsume(t, peers) })
	t.Run("repeats on another node", func(t *testing.T) { testRepeats(t, peers) })
	t.Run("dead letters at least once", func(t *testing.T) { testDeadLetters(t, peers, "at-least-once", "reject-publish") })
	t.Run("dead letters at most once", func(t *testing.T) { testDeadLetters(t, peers, "at-most-once", "drop-head") })
	t.Run("get and settle on another node", func(t *testing.T) { testGet(t, peers) })
	t.Run("delete while consuming", func(t *testing.T) { testDeleted(t, peers) })
	t.Run("target is full for a time", func(t *testing.T) { testFullTarget(t, peers) })
	t.Run("dead letters over a lost leader", func(t *testing.T) { testKillForwarding(t, c, peers) })
	t.Run("kill the leader", func(t *testing.T) { testKill(t, c, peers) })
}

func testPublishConsume(t *testing.T, peers []peer) {
	const n = 2000
	peers[0].declare(t, "orders")
	peers[1].publish(t, "orders", n)
	got := peers[2].consume(t, "orders", n, brokerv1.Outcome_OUTCOME_ACK)
	for i, d := range got {
		if want := fmt.Sprintf("orders %d", i); string(d.GetBody()) != want || d.GetDeliveryId() != uint64(i+1) {
			t.Fatalf("delivery %d is %q with id %d, want %q", i, d.GetBody(), d.GetDeliveryId(), want)
		}
	}
	if s := peers[0].stats(t, "orders"); s.GetStats().GetMessages() != 0 || len(s.GetMembers()) != 3 || s.GetState() != "running" {
		t.Errorf("the queue is not empty and whole: %v", s)
	}
}

// A publisher that sends again on another node, under the same numbers, stores nothing
// twice.
func testRepeats(t *testing.T, peers []peer) {
	const n = 50
	peers[0].declare(t, "once")
	for _, p := range peers {
		var reqs []*brokerv1.PublishRequest
		for i := range n {
			reqs = append(reqs, &brokerv1.PublishRequest{
				Sequence: uint64(i + 1), Producer: []byte("sixteen bytes id"), Message: &brokerv1.Message{RoutingKey: "once"},
			})
		}
		results, err := publishRequests(t, p, reqs...)
		if err != nil || len(results) != n {
			t.Fatal(results, err)
		}
	}
	if m := peers[0].stats(t, "once").GetStats().GetMessages(); m != n {
		t.Errorf("%d messages of %d", m, n)
	}
}

// DL-21, DL-29 and DL-30: every rejected message arrives once, in order, with its death.
func testDeadLetters(t *testing.T, peers []peer, strategy, overflow string) {
	const n = 500
	work, dead := "work "+strategy, "dead "+strategy
	peers[0].declare(t, dead)
	peers[0].declare(t, work, text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", dead),
		text("x-dead-letter-strategy", strategy), text("x-overflow", overflow))
	peers[1].publish(t, work, n)
	peers[2].consume(t, work, n, brokerv1.Outcome_OUTCOME_DISCARD)
	got := peers[1].consume(t, dead, n, brokerv1.Outcome_OUTCOME_ACK)
	for i, d := range got {
		if want := fmt.Sprintf("%s %d", work, i); string(d.GetBody()) != want {
			t.Fatalf("dead letter %d is %q, want %q", i, d.GetBody(), want)
		}
		if x := d.GetDeaths(); len(x) != 1 || x[0].GetQueue() != work || x[0].GetReason() != "rejected" || x[0].GetCount() != 1 {
			t.Fatalf("dead letter %d has deaths %v", i, x)
		}
	}
	testcluster.Poll(t, "the backlog is settled", func() error {
		if m := peers[0].stats(t, work).GetStats().GetMessages(); m != 0 {
			return fmt.Errorf("%d messages left", m)
		}
		return nil
	})
	if m := peers[0].stats(t, dead).GetStats().GetMessages(); m != 0 {
		t.Errorf("%d dead letters came twice", m)
	}
}

func testGet(t *testing.T, peers []peer) {
	peers[0].declare(t, "got")
	peers[0].publish(t, "got", 2)
	ctx := testContext(t)
	first, err := peers[1].Get(ctx, &brokerv1.GetRequest{Queue: "got"})
	if err != nil || first.GetReady() != 1 || string(first.GetDelivery().GetBody()) != "got 0" {
		t.Fatalf("got %v, %v", first, err)
	}
	if _, err := peers[2].Settle(ctx, &brokerv1.SettleRequest{SettleToken: first.GetSettleToken(), Outcome: brokerv1.Outcome_OUTCOME_ACK}); err != nil {
		t.Fatal(err)
	}
	second, err := peers[0].Get(ctx, &brokerv1.GetRequest{Queue: "got", AutoAck: true})
	if err != nil || string(second.GetDelivery().GetBody()) != "got 1" || second.GetSettleToken() != "" {
		t.Fatalf("got %v, %v", second, err)
	}
	if none, err := peers[0].Get(ctx, &brokerv1.GetRequest{Queue: "got"}); err != nil || none.GetDelivery() != nil {
		t.Fatalf("got %v, %v", none, err)
	}
	if m := peers[0].stats(t, "got").GetStats().GetMessages(); m != 0 {
		t.Errorf("%d messages left", m)
	}
}

func testDeleted(t *testing.T, peers []peer) {
	peers[0].declare(t, "doomed")
	stream, err := peers[1].Consume(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	open := &brokerv1.ConsumeOpen{Queue: "doomed"}
	if err := stream.Send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Open{Open: open}}); err != nil {
		t.Fatal(err)
	}
	if res, err := stream.Recv(); err != nil || res.GetOpened() == nil {
		t.Fatal(res, err)
	}
	if _, err := peers[2].admin.DeleteQueue(testContext(t), &brokerv1.DeleteQueueRequest{Name: "doomed"}); err != nil {
		t.Fatal(err)
	}
	if res, err := stream.Recv(); err != nil || res.GetCancelled().GetCause() != "queue deleted" {
		t.Fatal(res, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// DL-26: a full target gets the rest when it has room, each once.
func testFullTarget(t *testing.T, peers []peer) {
	peers[0].declare(t, "small", number("x-max-length", 2), text("x-overflow", "reject-publish"))
	peers[0].declare(t, "full", text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", "small"),
		text("x-dead-letter-strategy", "at-least-once"), text("x-overflow", "reject-publish"))
	peers[1].publish(t, "full", 5)
	peers[1].consume(t, "full", 5, brokerv1.Outcome_OUTCOME_DISCARD)
	testcluster.Poll(t, "every node tells why the forwarder waits (ST-1)", func() error {
		for i := range peers {
			s := peers[i].stats(t, "full").GetStats()
			if s.GetMessagesDlx() != 3 || s.GetDeadLetterConfirmed() != 2 || s.GetLastDeadLetterError() == "" {
				return fmt.Errorf("node %d: %v", i, s)
			}
		}
		return nil
	})
	for i := range 5 {
		want := fmt.Sprintf("full %d", i)
		testcluster.Poll(t, want+" arrives", func() error {
			got, err := peers[2].Get(testContext(t), &brokerv1.GetRequest{Queue: "small", AutoAck: true})
			if err != nil || got.GetDelivery() == nil {
				return fmt.Errorf("got %v, %w", got, err)
			}
			if b := string(got.GetDelivery().GetBody()); b != want {
				t.Fatalf("dead letter %d is %q, want %q", i, b, want)
			}
			return nil
		})
	}
}

// DL-25: a leader that is lost while it forwards leaves each dead letter in the target once.
func testKillForwarding(t *testing.T, c *testcluster.Cluster, peers []peer) {
	const n = 3000
	peers[0].declare(t, "grave")
	peers[0].declare(t, "dying", text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", "grave"),
		text("x-dead-letter-strategy", "at-least-once"), text("x-overflow", "reject-publish"))
	victim := ledBy(t, c, peers[0], "dying")
	alive := peers[(victim+1)%3]
	alive.publish(t, "dying", n)
	alive.consume(t, "dying", n, brokerv1.Outcome_OUTCOME_DISCARD)
	left := alive.stats(t, "dying").GetStats().GetMessagesDlx()
	c.Kill(victim)
	t.Logf("%d of %d dead letters were waiting", left, n)
	testcluster.Poll(t, "the backlog is empty", func() error {
		if s := alive.stats(t, "dying"); s.GetStats() == nil || s.GetStats().GetMessages() > 0 {
			return fmt.Errorf("the queue is %v", s)
		}
		return nil
	})
	for i, d := range alive.consume(t, "grave", n, brokerv1.Outcome_OUTCOME_ACK) {
		if want := fmt.Sprintf("dying %d", i); string(d.GetBody()) != want {
			t.Fatalf("dead letter %d is %q, want %q", i, d.GetBody(), want)
		}
	}
	if m := alive.stats(t, "grave").GetStats().GetMessages(); m != 0 {
		t.Errorf("%d dead letters came twice", m)
	}
	c.Restart(victim)
}

// PUB-7: what was confirmed survives the leader.
func testKill(t *testing.T, c *testcluster.Cluster, peers []peer) {
	const n = 300
	peers[0].declare(t, "survivor")
	peers[0].publish(t, "survivor", n)
	victim := ledBy(t, c, peers[0], "survivor")
	c.Kill(victim)
	alive := peers[(victim+1)%3]
	alive.publish(t, "survivor", n)
	if got := alive.consume(t, "survivor", 2*n, brokerv1.Outcome_OUTCOME_ACK); len(got) != 2*n {
		t.Fatalf("%d of %d messages", len(got), 2*n)
	}
	c.Restart(victim)
}
