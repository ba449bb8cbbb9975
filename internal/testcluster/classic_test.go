package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// queues that end with something, on three nodes.
func TestClassic(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.StartWith(t, 3, broker.Config{ConnectionTimeout: time.Second})
	var all []peer
	for _, addr := range c.Addrs() {
		all = append(all, dial(t, addr))
	}
	t.Run("exclusive", func(t *testing.T) { testExclusive(t, c, all) })
	t.Run("connection over nodes", func(t *testing.T) { testConnect(t, all) })
	t.Run("client", func(t *testing.T) { testExclusiveClient(t, c) })
	t.Run("ended connection", func(t *testing.T) { testEndedConnection(t, all) })
	t.Run("auto-delete", func(t *testing.T) { testAutoDelete(t, c) })
	t.Run("made-up names", func(t *testing.T) { testMadeUpNames(t, c) })
	t.Run("priorities", func(t *testing.T) { testClassicPriorities(t, c) })
	t.Run("equivalence", func(t *testing.T) { testClassicEquivalence(t, c) })
	t.Run("asked for by arguments", func(t *testing.T) { testAskedForClassic(t, c) })
	t.Run("lost node", func(t *testing.T) { testLostOwner(t, c) }) // last: it kills a node
}

// single is a connection of its own to one node, with what closes it.
func single(t *testing.T, addr string) (peer, func()) {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(guest{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() }) // a second time is refused
	return peer{brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc), nil, brokerv1.NewTransactionsClient(cc)}, func() { _ = cc.Close() }
}

func classicQueue(name string, more func(*brokerv1.DeclareQueueRequest)) *brokerv1.DeclareQueueRequest {
	r := &brokerv1.DeclareQueueRequest{Name: name}
	more(r)
	return r
}

func exclusive(r *brokerv1.DeclareQueueRequest) { r.Exclusive = true }

// awaitGone waits until a node knows of no such queue.
func awaitGone(t *testing.T, p peer, name string) {
	t.Helper()
	testcluster.Poll(t, "queue "+name+" is gone", func() error {
		_, err := p.admin.DeclareQueue(testContext(t), &brokerv1.DeclareQueueRequest{Name: name, Passive: true})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return fmt.Errorf("it answers %w", err)
	})
}

// uses are all that takes an exclusive queue's owner.
func uses(t *testing.T, p peer, name string) map[string]func(context.Context) error {
	t.Helper()
	binding := &brokerv1.Binding{Source: "amq.fanout", Destination: name}
	return map[string]func(context.Context) error{
		"passive": func(ctx context.Context) error {
			_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: name, Passive: true})
			return err
		},
		"redeclare": func(ctx context.Context) error {
			_, err := p.admin.DeclareQueue(ctx, classicQueue(name, exclusive))
			return err
		},
		"get": func(ctx context.Context) error {
			_, err := p.Get(ctx, &brokerv1.GetRequest{Queue: name, AutoAck: true})
			return err
		},
		"consume": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := p.Consume(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(open(&brokerv1.ConsumeOpen{Queue: name, Prefetch: 1})); err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
		"bind": func(ctx context.Context) error {
			_, err := p.admin.Bind(ctx, &brokerv1.BindRequest{Binding: binding})
			return err
		},
		"unbind": func(ctx context.Context) error {
			_, err := p.admin.Unbind(ctx, &brokerv1.UnbindRequest{Binding: binding})
			return err
		},
		"purge": func(ctx context.Context) error {
			_, err := p.admin.PurgeQueue(ctx, &brokerv1.PurgeQueueRequest{Name: name})
			return err
		},
	}
}

// without Connect, the owner is the client's own connection.
func testExclusive(t *testing.T, c *testcluster.Cluster, all []peer) {
	ctx := testContext(t)
	owner, hangUp := single(t, c.Addrs()[0])
	if _, err := owner.admin.DeclareQueue(ctx, classicQueue("e", exclusive)); err != nil {
		t.Fatal(err)
	}
	q := owner.stats(t, "e")
	if q.GetType() != "classic" || !q.GetExclusive() || q.GetAutoDelete() || !q.GetDurable() {
		t.Errorf("the queue is %v", q)
	}
	for i, p := range all {
		for use, call := range uses(t, p, "e") {
			if err := call(ctx); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "RESOURCE_LOCKED") {
				t.Errorf("%s on node %d by another connection: %v", use, i, err)
			}
		}
		_, err := p.admin.DeleteQueue(ctx, &brokerv1.DeleteQueueRequest{Name: "e"})
		refused(t, err, codes.FailedPrecondition, "RESOURCE_LOCKED", "belongs to another connection")
		_, err = p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "e"})
		refused(t, err, codes.FailedPrecondition, "RESOURCE_LOCKED", "belongs to another connection")
		p.publish(t, "e", 1)
	}
	for use, call := range uses(t, owner, "e") {
		if use == "purge" || use == "get" || use == "consume" {
			continue
		}
		if err := call(ctx); err != nil {
			t.Errorf("%s by the owner: %v", use, err)
		}
	}
	if err := uses(t, owner, "e")["consume"](ctx); err != nil {
		t.Errorf("consume by the owner: %v", err)
	}
	testcluster.Poll(t, "all messages are back", func() error {
		r, err := owner.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "e", Passive: true})
		if err == nil && r.GetMessageCount() != 3 {
			err = fmt.Errorf("%d are ready", r.GetMessageCount())
		}
		return err
	})
	if r, err := owner.Get(ctx, &brokerv1.GetRequest{Queue: "e", AutoAck: true}); err != nil || r.GetDelivery() == nil {
		t.Errorf("get by the owner: %v, %v", r, err)
	}
	if r, err := owner.admin.PurgeQueue(ctx, &brokerv1.PurgeQueueRequest{Name: "e"}); err != nil || r.GetMessages() != 2 {
		t.Errorf("purge by the owner: %v, %v", r, err)
	}
	hangUp()
	for _, p := range all {
		awaitGone(t, p, "e")
	}
	// Who comes after the connection has a queue of their own.
	if r, err := all[1].admin.DeclareQueue(ctx, classicQueue("e", exclusive)); err != nil || !r.GetCreated() || r.GetUid() == q.GetUid() {
		t.Errorf("declared anew: %v, %v", r, err)
	}
	if _, err := all[1].admin.DeleteQueue(ctx, &brokerv1.DeleteQueueRequest{Name: "e"}); err != nil {
		t.Errorf("delete by the owner: %v", err)
	}
}

// connected opens a connection on a node, and returns the contexts of its calls.
func connected(t *testing.T, p peer, r *brokerv1.ConnectRequest) (ctx context.Context, end context.CancelFunc) {
	t.Helper()
	life, end := context.WithCancel(testContext(t))
	t.Cleanup(end)
	stream, err := p.Connect(life, r)
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return grpcmetadata.AppendToOutgoingContext(testContext(t), "quorate-connection", first.GetConnection()), end
}

// what belongs to a connection of Connect does so on every node.
func testConnect(t *testing.T, all []peer) {
	ctx, end := connected(t, all[0], &brokerv1.ConnectRequest{Vhost: "/"})
	if _, err := all[1].admin.DeclareQueue(ctx, classicQueue("far", exclusive)); err != nil {
		t.Fatal(err)
	}
	other, _ := connected(t, all[0], &brokerv1.ConnectRequest{})
	for i, p := range all {
		for use, call := range uses(t, p, "far") {
			testcluster.Poll(t, fmt.Sprintf("%s on node %d", use, i), func() error { return call(ctx) })
			if err := call(other); status.Code(err) != codes.FailedPrecondition {
				t.Errorf("%s on node %d by another: %v", use, i, err)
			}
			if err := call(testContext(t)); status.Code(err) != codes.FailedPrecondition {
				t.Errorf("%s on node %d by nobody: %v", use, i, err)
			}
		}
	}
	end()
	for _, p := range all {
		awaitGone(t, p, "far")
	}
	for id, want := range map[string]string{"": "is not an id", "1.k.": "is not an id", "x.k.node-0": "is not an id", "1.k": "is not an id"} {
		bad := grpcmetadata.AppendToOutgoingContext(testContext(t), "quorate-connection", id)
		_, err := all[0].admin.GetQueue(bad, &brokerv1.GetQueueRequest{Name: "q"})
		refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", want)
	}
	stream, err := all[0].Connect(testContext(t), &brokerv1.ConnectRequest{Vhost: "nov"})
	if err == nil {
		_, err = stream.Recv()
	}
	refused(t, err, codes.PermissionDenied, "NOT_ALLOWED", `vhost "nov"`)
}

// a client's exclusive queues are its own, over all nodes, until it is closed.
func testExclusiveClient(t *testing.T, c *testcluster.Cluster) {
	ctx := testContext(t)
	mine, other := openClient(t, c), openClient(t, c)
	if _, err := mine.DeclareQueue(ctx, client.Queue{Name: "mine", Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	for _, addr := range c.Addrs() { // the client's other nodes
		from := openClient(t, c, func(cfg *client.Config) { cfg.Addresses, cfg.FixedAddresses = []string{addr}, true })
		if _, err := from.Get(ctx, client.GetRequest{Queue: "mine", AutoAck: true}); client.ClassOf(err) != client.ResourceLocked {
			t.Errorf("get by another client: %v", err)
		}
	}
	if _, err := other.PublishOne(ctx, client.Message{RoutingKey: "mine", Body: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	s, err := mine.Consume(ctx, client.ConsumeConfig{Queue: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := s.Receive(ctx); err != nil || string(d.Body) != "hello" {
		t.Errorf("delivery %v, %v", d, err)
	}
	lost := mine.ConnectionLost()
	mine.Close()
	<-lost
	testcluster.Poll(t, "the queue is gone", func() error {
		_, err := other.DeclareQueue(ctx, client.Queue{Name: "mine", Passive: true})
		if client.ClassOf(err) == client.NotFound {
			return nil
		}
		return fmt.Errorf("it answers %w", err)
	})
}

// nothing is made for a connection that has ended, and nothing stays of one.
func testEndedConnection(t *testing.T, all []peer) {
	ctx, end := connected(t, all[0], &brokerv1.ConnectRequest{})
	if _, err := all[0].admin.DeclareQueue(ctx, classicQueue("late", exclusive)); err != nil {
		t.Fatal(err)
	}
	end()
	awaitGone(t, all[0], "late")
	_, err := all[0].admin.DeclareQueue(ctx, classicQueue("late", exclusive))
	refused(t, err, codes.FailedPrecondition, "PRECONDITION_FAILED", "has ended")
	// Another node cannot know; the one that had it takes the queue away.
	if _, err := all[1].admin.DeclareQueue(ctx, classicQueue("late", exclusive)); err != nil {
		t.Logf("declared by another node: %v", err)
	}
	awaitGone(t, all[2], "late")
	never := grpcmetadata.AppendToOutgoingContext(testContext(t), "quorate-connection", "999.KEY.node-0")
	_, err = all[1].admin.DeclareQueue(never, classicQueue("late", exclusive))
	refused(t, err, codes.InvalidArgument, "PRECONDITION_FAILED", "earlier life")
}

// with its last consumer an auto-delete queue goes, and not before it had one.
func testAutoDelete(t *testing.T, c *testcluster.Cluster) {
	ctx := testContext(t)
	cl := openClient(t, c)
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "auto", AutoDelete: true}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"a", "b", "c"} {
		if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "auto", Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := cl.Get(ctx, client.GetRequest{Queue: "auto", AutoAck: true}); err != nil || m == nil { // no consumer
		t.Fatal(m, err)
	}
	var consumers []*client.Consumer
	for range 2 {
		s, err := cl.Consume(ctx, client.ConsumeConfig{Queue: "auto", Prefetch: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		consumers = append(consumers, s)
	}
	consumers[0].Close()
	testcluster.Poll(t, "one consumer is left", func() error {
		r, err := cl.DeclareQueue(ctx, client.Queue{Name: "auto", Passive: true})
		if err == nil && r.ConsumerCount != 1 {
			err = fmt.Errorf("there are %d", r.ConsumerCount)
		}
		return err
	})
	if err := consumers[1].Cancel(ctx, false); err != nil { // what it holds does not count
		t.Fatal(err)
	}
	awaitGone(t, dial(t, c.Addrs()[2]), "auto")
}

// a queue without a name gets one.
func testMadeUpNames(t *testing.T, c *testcluster.Cluster) {
	ctx := testContext(t)
	cl := openClient(t, c)
	var names []string
	for _, q := range []client.Queue{
		{Exclusive: true}, {}, {Transient: true}, {Name: "\r\n", AutoDelete: true}, {Arguments: client.Table{"x-queue-type": "classic"}},
	} {
		r, err := cl.DeclareQueue(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Created || !strings.HasPrefix(r.Name, "amq.gen-") || len(r.Name) != 30 || slices.Contains(names, r.Name) {
			t.Errorf("the name is %q", r.Name)
		}
		names = append(names, r.Name)
	}
	if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: names[0], Body: []byte("x"), Mandatory: true}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{names[1], "amq.gen-mine"} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: name}); client.ClassOf(err) != client.AccessRefused {
			t.Errorf("declare %s: %v", name, err)
		}
	}
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: names[1], Passive: true}); err != nil {
		t.Error(err)
	}
	q, err := cl.GetQueue(ctx, client.QueueRef{Name: names[2]})
	if err != nil || len(q.Members) != 1 || q.Durable {
		t.Errorf("the queue that is not durable: %v, %v", q, err)
	}
}

// PR-1: a classic queue orders by as many priorities as it asks for.
func testClassicPriorities(t *testing.T, c *testcluster.Cluster) {
	ctx := testContext(t)
	cl := openClient(t, c)
	for name, test := range map[string]struct {
		args client.Table
		want string
	}{
		"plain":  {client.Table{"x-queue-type": "classic"}, "none 0 4 9 10 200"},
		"ten":    {client.Table{"x-queue-type": "classic", "x-max-priority": 10}, "10 200 9 4 none 0"},
		"quorum": {nil, "200 10 9 none 4 0"},
	} {
		source := "prio-from-" + name
		args := client.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "prio-" + name, "x-message-ttl": 0}
		for _, q := range []client.Queue{{Name: "prio-" + name, Arguments: test.args}, {Name: source, Arguments: args}} {
			if _, err := cl.DeclareQueue(ctx, q); err != nil {
				t.Fatal(err)
			}
		}
		// Half comes by itself, half as dead letters.
		for i, p := range []string{"none", "0", "4", "9", "10", "200"} {
			m := client.Message{RoutingKey: "prio-" + name, Body: []byte(p)}
			if i%2 == 1 {
				m.RoutingKey = source
			}
			if p != "none" {
				var n uint8
				_, _ = fmt.Sscan(p, &n)
				m.Priority = &n
			}
			if _, err := cl.PublishOne(ctx, m); err != nil {
				t.Fatal(err)
			}
			testcluster.Poll(t, "it is there", func() error {
				r, err := cl.DeclareQueue(ctx, client.Queue{Name: "prio-" + name, Passive: true})
				if err == nil && r.MessageCount != uint64(i+1) {
					err = fmt.Errorf("there are %d", r.MessageCount)
				}
				return err
			})
		}
		var got []string
		for range 6 {
			m, err := cl.Get(ctx, client.GetRequest{Queue: "prio-" + name, AutoAck: true})
			if err != nil || m == nil {
				t.Fatal(m, err)
			}
			got = append(got, string(m.Body))
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %s, want %s", name, s, test.want)
		}
	}
}

// all properties count, each by its own name.
func testClassicEquivalence(t *testing.T, c *testcluster.Cluster) {
	ctx := testContext(t)
	cl := openClient(t, c)
	base := client.Queue{Name: "same", Transient: true, AutoDelete: true, Arguments: client.Table{"x-max-priority": 5}}
	if _, err := cl.DeclareQueue(ctx, base); err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]struct {
		change func(*client.Queue)
		class  client.Class
	}{
		"":               {func(*client.Queue) {}, ""},
		"durable":        {func(q *client.Queue) { q.Transient = false }, client.PreconditionFailed},
		"auto_delete":    {func(q *client.Queue) { q.AutoDelete = false }, client.PreconditionFailed},
		"exclusive":      {func(q *client.Queue) { q.Exclusive = true }, client.ResourceLocked},
		"x-queue-type":   {func(q *client.Queue) { q.Arguments = client.Table{"x-queue-type": "quorum", "x-max-priority": 5} }, client.PreconditionFailed},
		"x-max-priority": {func(q *client.Queue) { q.Arguments = nil }, client.PreconditionFailed},
	} {
		q := base
		row.change(&q)
		_, err := cl.DeclareQueue(ctx, q)
		if client.ClassOf(err) != row.class || row.class != "" && !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, want class %s", what, err, row.class)
		}
	}
}

// what ended with a node goes, whether the node comes back or not.
func testLostOwner(t *testing.T, c *testcluster.Cluster) {
	ctx := testContext(t)
	p := dial(t, c.Addrs()[2])
	if _, err := p.admin.DeclareQueue(ctx, classicQueue("lost", exclusive)); err != nil {
		t.Fatal(err)
	}
	off := false
	transient := classicQueue("transient", func(r *brokerv1.DeclareQueueRequest) { r.Durable = &off })
	made, err := p.admin.DeclareQueue(ctx, transient)
	if err != nil {
		t.Fatal(err)
	}
	p.publish(t, "transient", 3)
	if q := p.stats(t, "transient"); !slices.Equal(q.GetMembers(), []string{c.Name(2)}) {
		t.Errorf("its members are %v", q.GetMembers())
	}
	c.Kill(2)
	left := dial(t, c.Addrs()[0])
	awaitGone(t, left, "lost")
	if _, err := left.admin.GetQueue(ctx, &brokerv1.GetQueueRequest{Name: "transient"}); err != nil {
		t.Errorf("the queue of the lost node: %v", err)
	}
	c.Restart(2)
	awaitGone(t, left, "transient")
	again, err := dial(t, c.Addrs()[2]).admin.DeclareQueue(ctx, transient)
	if err != nil || !again.GetCreated() || again.GetUid() == made.GetUid() || again.GetMessageCount() != 0 {
		t.Errorf("declared anew: %v, %v", again, err)
	}
}

// the types may be taken for equal.
func TestRelaxedTypeCheck(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.StartWith(t, 1, broker.Config{RelaxedTypeCheck: true})
	ctx, cl := testContext(t), openClient(t, c)
	for i, kind := range []string{"quorum", "classic", "classic", "quorum", ""} {
		q := client.Queue{Name: "q"}
		if kind != "" {
			q.Arguments = client.Table{"x-queue-type": kind}
		}
		r, err := cl.DeclareQueue(ctx, q)
		if err != nil || r.Created != (i == 0) {
			t.Errorf("as %s: %v, %v", kind, r, err)
		}
	}
	for _, args := range []client.Table{{"x-queue-type": "stream"}, {"x-max-length": 5}} {
		var e *client.Error
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q", Arguments: args}); !errors.As(err, &e) || e.Class != client.PreconditionFailed {
			t.Errorf("with %v: %v", args, err)
		}
	}
}
