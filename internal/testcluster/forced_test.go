package testcluster_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// What a client is notified of a connection over gRPC that an operator closes.
func TestClosedOverGRPC(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts nodes")
	}
	c := testcluster.Start(t, 2)
	operator := openClient(t, c)
	t.Run("streams", func(t *testing.T) { testClosedStreams(t, c, operator) })
	t.Run("client", func(t *testing.T) { testClosedClient(t, c, operator) })
	t.Run("stuck", func(t *testing.T) { testClosedStuck(t, c, operator) })
}

// called logs guest in, and says the client's name.
type called string

func (c called) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	with, err := guest{}.GetRequestMetadata(ctx, uri...)
	with["quorate-client-name"] = string(c)
	return with, err
}

func (called) RequireTransportSecurity() bool { return false }

// named is a connection of its own to one node, by a client that says its name.
func named(t *testing.T, addr, name string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(called(name)),
		grpc.WithUserAgent("tests/1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
	})
	return cc
}

// find returns the one connection of a client's name; one without an id: there is none.
func find(t *testing.T, operator *client.Client, name string) *client.ConnectionInfo {
	t.Helper()
	listed, err := client.Collect(operator.Connections(testContext(t), client.ListConnectionsRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(listed, func(x client.ConnectionInfo) bool { return x.ClientName != name })
	switch len(all) {
	case 0:
		return &client.ConnectionInfo{}
	case 1:
		return &all[0]
	}
	t.Fatalf("%v, want one", all)
	return nil
}

// forced checks that a stream ended because an operator closed its connection.
func forced(t *testing.T, what string, err error, x *client.ConnectionInfo) {
	t.Helper()
	if err == nil {
		t.Fatalf("stream %s goes on", what)
	}
	refused(t, err, codes.Unavailable, "CONNECTION_FORCED", fmt.Sprintf("connection %q: is closed by guest: enough", x.Name))
}

// All streams end with who closed their connection and why, a publish stream with the results
// of all that was taken from it; the connection goes, and the client connects again.
func testClosedStreams(t *testing.T, c *testcluster.Cluster, operator *client.Client) {
	ctx := testContext(t)
	cc := named(t, c.Addrs()[0], "streams")
	p := peer{brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc), nil, brokerv1.NewTransactionsClient(cc)}
	p.declare(t, "taken")
	p.declare(t, "idle")
	consumer := p.open(t, &brokerv1.ConsumeOpen{Queue: "idle"})
	connect, err := p.Connect(ctx, &brokerv1.ConnectRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect.Recv(); err != nil {
		t.Fatal(err)
	}
	events, err := brokerv1.NewEventsClient(cc).WatchEvents(ctx, &brokerv1.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := events.Recv(); err != nil {
		t.Fatal(err)
	}
	publish, err := p.Publish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	x := find(t, operator, "streams")
	if x.State != "running" || !strings.HasPrefix(x.Product, "tests/1 grpc-go/") || x.User != "guest" {
		t.Fatalf("%v", x)
	}
	closed := make(chan error, 1)
	go func() {
		for n := uint64(1); ; n++ {
			if publish.Send(&brokerv1.PublishRequest{Sequence: n, Message: &brokerv1.Message{RoutingKey: "taken"}}) != nil {
				return // Recv says why
			}
		}
	}()
	answered := 0
	for {
		if _, err = publish.Recv(); err != nil {
			break
		}
		if answered++; answered == 1 { // so that some are stored before, and some are on their way
			go func() {
				closed <- operator.CloseConnection(ctx, client.CloseConnectionRequest{Connection: x.ID, Reason: "enough"})
			}()
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	forced(t, "publish", err, x)
	_, err = consumer.stream.Recv()
	forced(t, "consume", err, x)
	_, err = connect.Recv()
	forced(t, "connect", err, x)
	for err = nil; err == nil; {
		_, err = events.Recv()
	}
	forced(t, "events", err, x)
	testcluster.Poll(t, "another connection serves", func() error {
		_, err := p.admin.GetQueue(ctx, &brokerv1.GetQueueRequest{Name: "taken"})
		if err == nil && find(t, operator, "streams").ID == x.ID {
			err = fmt.Errorf("it is the one that was closed, %s", x.ID)
		}
		return err
	})
	q, err := operator.GetQueue(ctx, client.QueueRef{VHost: "/", Name: "taken"})
	if err != nil || q.Figures().MessagesReady != uint64(answered) {
		t.Errorf("%v, %v, want %d messages: one for each answer", q.Stats, err, answered)
	}
}

// lines is a log that may be written and read at once.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// The Go client continues over other connections, says so, and loses and repeats nothing.
func testClosedClient(t *testing.T, c *testcluster.Cluster, operator *client.Client) {
	const n, rounds = 3000, 3
	ctx, log := testContext(t), &lines{}
	cl := openClient(t, c, func(cfg *client.Config) {
		cfg.Name, cfg.Logger = "worker", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "work"}); err != nil {
		t.Fatal(err)
	}
	pub, err := cl.Publisher(client.PublisherConfig{MaxInFlight: 64})
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan error, 1)
	go func() {
		failed := make(chan error, n)
		for i := range n {
			err := pub.PublishAsync(ctx, client.Message{RoutingKey: "work", Body: fmt.Append(nil, i)}, func(r client.Result, err error) {
				if err != nil || r.Outcome != client.Confirmed {
					failed <- fmt.Errorf("message %d: %v, %w", i, r, err)
				}
			})
			if err != nil {
				published <- err
				return
			}
		}
		err := pub.Flush(ctx)
		close(failed)
		published <- cmp.Or(err, <-failed)
	}()
	consumer, err := cl.Consume(ctx, client.ConsumeConfig{Queue: "work", Prefetch: 50})
	if err != nil {
		t.Fatal(err)
	}
	var seen atomic.Int64
	received := make(chan error, 1)
	go func() { received <- receiveOnce(ctx, consumer, &seen) }()
	for round := range rounds {
		testcluster.Poll(t, "messages arrive", func() error {
			if have, want := seen.Load(), int64((round+1)*n/(rounds+1)); have < want {
				return fmt.Errorf("%d of %d", have, want)
			}
			return nil
		})
		closeAll(ctx, t, operator, "worker")
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
	testcluster.Poll(t, "the queue is empty", func() error {
		q, err := operator.GetQueue(ctx, client.QueueRef{VHost: "/", Name: "work"})
		if err == nil && (q.Stats == nil || q.Stats.Messages > 0) {
			err = fmt.Errorf("%v", q.Stats)
		}
		return err
	})
	consumer.Close()
	if err := <-received; !errors.Is(err, client.ErrClosed) || seen.Load() != n {
		t.Errorf("%d of %d messages are received, %v", seen.Load(), n, err)
	}
	for _, want := range []string{"an operator closed the connection to a node", "is closed by guest: enough"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, log)
		}
	}
}

// receiveOnce acknowledges what comes until the consumer ends, and counts it except for what comes again. A message
// that is in the queue twice is an error.
func receiveOnce(ctx context.Context, consumer *client.Consumer, n *atomic.Int64) error {
	seen, first := map[string]bool{}, map[string]bool{}
	for {
		d, err := consumer.Receive(ctx)
		if err != nil {
			return err
		}
		body := string(d.Body)
		if !d.Redelivered && first[body] {
			return fmt.Errorf("message %s is in the queue twice", body)
		}
		seen[body] = true
		first[body] = first[body] || !d.Redelivered
		n.Store(int64(len(seen)))
		if err := d.Ack(); err != nil && !errors.Is(err, client.ErrStale) {
			return err
		}
	}
}

// closeAll closes all connections of a client.
func closeAll(ctx context.Context, t *testing.T, operator *client.Client, name string) {
	t.Helper()
	for x, err := range operator.Connections(ctx, client.ListConnectionsRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		if x.ClientName != name || x.State != "running" {
			continue
		}
		if err := operator.CloseConnection(ctx, client.CloseConnectionRequest{Connection: x.ID, Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that reads nothing is not notified why, but its connection ends, and what it had returns.
func testClosedStuck(t *testing.T, c *testcluster.Cluster, operator *client.Client) {
	const n = 64
	cc := named(t, c.Addrs()[0], "stuck")
	p := peer{brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc), nil, brokerv1.NewTransactionsClient(cc)}
	p.declare(t, "unread")
	p.publishBodies(t, "unread", n, 64<<10)
	p.open(t, &brokerv1.ConsumeOpen{Queue: "unread"})
	x := find(t, operator, "stuck")
	testcluster.Poll(t, "the stream is stuck", func() error {
		if x = find(t, operator, "stuck"); x.SentBytes < 64<<10 { // HTTP/2's first window
			return fmt.Errorf("%d bytes are sent", x.SentBytes)
		}
		return nil
	})
	if err := operator.CloseConnection(testContext(t), client.CloseConnectionRequest{Connection: x.ID, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the connection is gone", func() error {
		if now := find(t, operator, "stuck"); now.ID == x.ID {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	testcluster.Poll(t, "the messages are back", func() error {
		q, err := operator.GetQueue(testContext(t), client.QueueRef{VHost: "/", Name: "unread"})
		if err == nil && q.Figures().MessagesReady != n {
			err = fmt.Errorf("%v", q.Stats)
		}
		return err
	})
}
