package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// publish enqueues through this node as gateway and waits for the confirm.
func (n *testNode) publish(t testing.TB, q id.QueueUID, body string, ttlMs int64) {
	t.Helper()
	end := n.queue(t, q)
	done := make(chan error, 1)
	err := end.Enqueue(testContext(t), quorumq.NewMessage{Size: uint32(len(body)), TTLMs: ttlMs}, []byte(body),
		func(err error) { done <- err })
	if err == nil {
		err = <-done
	}
	if err != nil {
		t.Fatalf("publishing at node %s: %v", n.cfg.Node, err)
	}
}

// inbox gathers what a consumer is delivered.
type testInbox struct {
	mu sync.Mutex
	ds []traffic.Delivery
}

func (i *testInbox) take(ds []traffic.Delivery) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ds = append(i.ds, ds...)
}

func (i *testInbox) bodies() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []string
	for _, d := range i.ds {
		out = append(out, string(d.Message))
	}
	return out
}

func (i *testInbox) await(t *testing.T, want ...string) {
	t.Helper()
	poll(t, fmt.Sprintf("%q are delivered", want), func() error {
		if got := i.bodies(); !slices.Equal(got, want) {
			return fmt.Errorf("have %q", got)
		}
		return nil
	})
}

func (n *testNode) consume(t testing.TB, q id.QueueUID) (*gateway.Consumer, *testInbox) {
	t.Helper()
	end := n.queue(t, q)
	in := &testInbox{}
	c, err := end.Consume(testContext(t), gateway.ConsumerConfig{Prefetch: 100, Deliver: in.take, Ended: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	return c, in
}

func (n *testNodes) overview(q id.QueueUID) quorumq.Overview {
	n.t.Helper()
	for _, node := range n.nodes {
		s, err := node.leaders.Status(testContext(n.t), q)
		if err != nil {
			n.t.Fatal(err)
		}
		return s.Overview
	}
	return quorumq.Overview{}
}

// One cluster for what leaves it as it was.
func TestHost(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	t.Run("deliver", func(t *testing.T) { testDeliver(t, n) })
	t.Run("transfer leadership", func(t *testing.T) { testTransfer(t, n) })
	t.Run("expire", func(t *testing.T) { testExpire(t, n) })
	t.Run("configuration", func(t *testing.T) { testConfiguration(t, n) })
	t.Run("dead letters", func(t *testing.T) { testDeadLetters(t, n) })
	t.Run("get", func(t *testing.T) { testGet(t, n) })
	t.Run("delete", func(t *testing.T) { testDelete(t, n) })
	t.Run("redeclare", func(t *testing.T) { testRedeclare(t, n) })
	t.Run("spread", func(t *testing.T) { testSpread(t, n) })
	t.Run("status", func(t *testing.T) { testStatus(t, n) })
}

// Deliveries reach consumers of the leader's node and of others, in order.
func testDeliver(t *testing.T, n *testNodes) {
	q := n.nodes["a"].declare(t, "deliver", 3)
	n.transferTo(t, q, "a")
	for _, at := range []id.NodeID{"a", "b"} {
		c, in := n.nodes[at].consume(t, q)
		n.nodes["c"].publish(t, q, "one", quorumq.Unlimited)
		n.nodes["a"].publish(t, q, "two", quorumq.Unlimited)
		in.await(t, "one", "two")
		if got := c.Decide(quorumq.MsgIDRange{First: 1, Last: 2}, gateway.Decision{Kind: gateway.Ack}); got != 2 {
			t.Errorf("%d decided", got)
		}
		if err := c.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	poll(t, "all is settled and no consumer left", func() error {
		if o := n.overview(q); o.Settled != 4 || o.Consumers != 0 {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
}

// A change of leader keeps the state, and consumers go on.
func testTransfer(t *testing.T, n *testNodes) {
	q := n.nodes["a"].declare(t, "transfer", 3)
	_, in := n.nodes["c"].consume(t, q)
	n.nodes["b"].publish(t, q, "before", quorumq.Unlimited)
	in.await(t, "before")
	for i, to := range []id.NodeID{"b", "c", "a"} {
		if err := n.nodes["a"].leaders.Transfer(testContext(t), q, to); err != nil {
			t.Fatal(err)
		}
		poll(t, "the leader changed", func() error {
			if l := n.nodes[to].leading(q); l == nil {
				return errWaiting
			}
			return nil
		})
		n.nodes["b"].publish(t, q, fmt.Sprint(i), quorumq.Unlimited)
	}
	in.await(t, "before", "0", "1", "2")
	if o := n.overview(q); o.Unsettled != 4 {
		t.Errorf("%+v", o)
	}
	err := n.nodes["a"].leaders.Transfer(testContext(t), q, "z")
	if err == nil || !strings.Contains(err.Error(), `"z"`) {
		t.Errorf("transfer to an outsider: %v", err)
	}
}

// TTL-6: the leader's host proposes Expire when the queue's time has come.
func testExpire(t *testing.T, n *testNodes) {
	q := n.nodes["b"].declare(t, "expire", 3)
	n.nodes["b"].publish(t, q, "short", 50)
	n.nodes["b"].publish(t, q, "long", 60_000)
	poll(t, "the message expires", func() error {
		if o := n.overview(q); o.Expired != 1 || o.Ready != 1 {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
}

// a declared queue has its configuration in force.
func testConfiguration(t *testing.T, n *testNodes) {
	q := n.nodes["b"].declare(t, "bounded", 3, number("x-max-length", 1), text("x-overflow", "reject-publish"))
	if o := n.overview(q); o.Config.MaxLength != 1 {
		t.Errorf("%+v", o.Config)
	}
	n.nodes["b"].publish(t, q, "first", quorumq.Unlimited)
	end := n.nodes["c"].queue(t, q)
	done := make(chan error, 1)
	err := end.Enqueue(testContext(t), quorumq.NewMessage{Size: 1, TTLMs: quorumq.Unlimited}, []byte("x"), func(err error) { done <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, traffic.ErrRefused) {
		t.Errorf("above the limit: %v", err)
	}
}

// The leader's node forwards dead letters: copies at most once, the backlog at least once.
func testDeadLetters(t *testing.T, n *testNodes) {
	a := n.nodes["a"]
	grave := a.declare(t, "grave", 3)
	lossy := a.declare(t, "lossy", 3, text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", "grave"))
	dies := string(message.Append(nil, &message.Message{RoutingKeys: []string{"lossy"}, Body: []byte("x")}))
	a.publish(t, lossy, dies, 1)
	poll(t, "a copy has arrived", func() error {
		if o := n.overview(grave); o.Ready != 1 {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
	unrouted := a.declare(t, "unrouted", 3, text("x-dead-letter-exchange", "nowhere"))
	a.publish(t, unrouted, dies, 1)
	poll(t, "a copy without a target is counted as lost", func() error {
		s, err := n.nodes["b"].leaders.Status(testContext(t), unrouted)
		if err != nil || s.Lost["no_exchange"] != 1 {
			return fmt.Errorf("%+v, %w", s.DeadLetters, err)
		}
		return nil
	})
	safe := a.declare(t, "safe", 3, atLeastOnce()...)
	a.publish(t, safe, "kept", 1)
	led := a.leading(safe)
	var ds []quorumq.Discarded
	poll(t, "the backlog has the message", func() error {
		var err error
		ds, _, err = led.Backlog(nil, 0, 10)
		if err != nil || len(ds) != 1 {
			return fmt.Errorf("%+v, %w", ds, err)
		}
		return nil
	})
	body, err := led.Body(ds[0].Body)
	if err != nil || string(body) != "kept" {
		t.Fatalf("body %q, %v", body, err)
	}
	if err := led.SettleBacklog(testContext(t), []quorumq.SeqRange{{First: ds[0].Seq, Last: ds[0].Seq}}); err != nil {
		t.Fatal(err)
	}
	if ds, settled, err := led.Backlog(nil, 0, 10); err != nil || len(ds) != 0 || settled != 1 {
		t.Errorf("backlog %+v, settled up to %d, %v", ds, settled, err)
	}
	if err := a.leaders.Transfer(testContext(t), safe, "b"); err != nil {
		t.Fatal(err)
	}
	poll(t, "a ceased", func() error {
		if a.leading(safe) != nil {
			return errWaiting
		}
		return nil
	})
	if _, _, err := led.Backlog(nil, 0, 10); !errors.Is(err, traffic.ErrUnavailable) {
		t.Errorf("backlog of an ended leadership: %v", err)
	}
	if err := led.SettleBacklog(testContext(t), nil); !errors.Is(err, traffic.ErrUnavailable) {
		t.Errorf("settling after an ended leadership: %v", err)
	}
}

// A Get at the leader and at another node carries the body.
func testGet(t *testing.T, n *testNodes) {
	q := n.nodes["a"].declare(t, "get", 3)
	for _, at := range []id.NodeID{"a", "c"} {
		n.nodes["a"].publish(t, q, "body", quorumq.Unlimited)
		end := n.nodes[at].queue(t, q)
		d, _, _, err := end.Get(testContext(t), true)
		if err != nil || d == nil || string(d.Message) != "body" {
			t.Errorf("at %s: %+v, %v", at, d, err)
		}
	}
}

// A deleted queue leaves nothing: no group, no files, and its gateways know.
func testDelete(t *testing.T, n *testNodes) {
	q := n.nodes["a"].declare(t, "deleted", 3)
	end := n.nodes["b"].queue(t, q)
	gone := make(chan error, 1)
	_, err := end.Consume(testContext(t), gateway.ConsumerConfig{Deliver: func([]traffic.Delivery) {}, Ended: func(err error) { gone <- err }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.nodes["c"].catalog.Propose(testContext(t), &catalog.DeleteQueue{VHost: "/", Name: "deleted"})
	if err != nil || !r.Deleted {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := <-gone; !errors.Is(err, traffic.ErrNoSuchQueue) {
		t.Errorf("consumer ended with %v", err)
	}
	for i, node := range n.nodes {
		poll(t, fmt.Sprintf("node %s has no trace of the queue", i), func() error {
			if _, err := os.Stat(node.dir.Queue(q)); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("its directory: %w", err)
			}
			if node.host.Member(q) != nil {
				return errWaiting
			}
			_, err := node.Gateway().Queue(q)
			if !errors.Is(err, traffic.ErrNoSuchQueue) {
				return fmt.Errorf("%w", err)
			}
			return nil
		})
	}
	if _, err := n.nodes["a"].leaders.Status(testContext(t), q); !errors.Is(err, traffic.ErrNoSuchQueue) {
		t.Errorf("status: %v", err)
	}
}

// the catalog decides about a queue that exists, and its error comes back.
func testRedeclare(t *testing.T, n *testNodes) {
	d := catalog.DeclareQueue{VHost: "/", Name: "again", Type: catalog.QueueQuorum, Durable: true}
	first, err := n.nodes["a"].operator.DeclareQueue(testContext(t), d, 3, true)
	if err != nil || !first.Created {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := n.nodes["b"].operator.DeclareQueue(testContext(t), d, 1, false)
	if err != nil || second.Created || second.UID != first.UID {
		t.Errorf("%+v, %v", second, err)
	}
	d.Durable = false
	_, err = n.nodes["c"].operator.DeclareQueue(testContext(t), d, 3, false)
	var refused *catalog.Error
	if !errors.As(err, &refused) || refused.Code != catalog.CodePreconditionFailed {
		t.Errorf("inequivalent: %v", err)
	}
}

func testStatus(t *testing.T, n *testNodes) {
	poll(t, "every node sees three that are alive and connected", func() error {
		for i, node := range n.nodes {
			s, err := node.Status(testContext(t))
			if err != nil {
				return err
			}
			if len(s.Nodes) != 3 || s.Name != n.name || s.Node != i || s.CatalogLeader == "" || s.CatalogIndex == 0 {
				return fmt.Errorf("%+v", s)
			}
			leaders := 0
			for _, o := range s.Nodes {
				if !o.Alive || !o.Connected || o.Replicas == 0 || o.PeerAddr == "" {
					return fmt.Errorf("%s sees %+v", i, o)
				}
				leaders += o.Leaders
			}
			if leaders != node.View().QueueCount() {
				return fmt.Errorf("%s counts %d leaders of %d queues", i, leaders, node.View().QueueCount())
			}
		}
		return nil
	})
}

// EX-15: whoever is notified of a change finds it on every node that is connected.
func testSpread(t *testing.T, n *testNodes) {
	for i := range 10 {
		q := n.nodes["b"].declare(t, fmt.Sprintf("spread-%d", i), 3)
		for at, node := range n.nodes {
			if _, err := node.Gateway().Queue(q); err != nil {
				t.Errorf("node %s, after the queue was declared at b: %v", at, err)
			}
		}
	}
}
