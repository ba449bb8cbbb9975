package client

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// trapped is a node that reads messages and answers none before answers is closed.
type trapped struct {
	brokerv1.UnimplementedBrokerServer
	brokerv1.UnimplementedAdminServer
	brokerv1.UnimplementedAccessServer
	*storage
	health  *health.Server
	opened  chan struct{} // a token for each publish stream
	answers chan struct{} // closed to let go
	known   atomic.Bool   // somebody has logged in
	strange atomic.Bool   // a stream was opened before that
}

func (n *trapped) WhoAmI(context.Context, *brokerv1.WhoAmIRequest) (*brokerv1.WhoAmIResponse, error) {
	n.known.Store(true)
	return &brokerv1.WhoAmIResponse{}, nil
}

func (n *trapped) Publish(s grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	n.strange.Store(!n.known.Load())
	n.opened <- struct{}{}
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		select {
		case <-n.answers:
		case <-s.Context().Done():
			return s.Context().Err()
		}
		n.store(first.GetProducer(), r)
		result := &brokerv1.PublishResult{Result: brokerv1.PublishResult_RESULT_CONFIRMED, Queues: 1}
		if err := s.Send(&brokerv1.PublishResponse{Sequence: r.GetSequence(), Result: result}); err != nil {
			return err
		}
	}
}

func (n *trapped) ClusterStatus(context.Context, *brokerv1.ClusterStatusRequest) (*brokerv1.ClusterStatusResponse, error) {
	return &brokerv1.ClusterStatusResponse{Cluster: "test"}, nil
}

// serveTrapped serves a node. If knows is set, the node has the health service that reports whether
// clients are better served elsewhere.
func serveTrapped(t *testing.T, stored *storage, knows bool) (*trapped, string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &trapped{storage: stored, health: health.NewServer(), opened: make(chan struct{}, 100), answers: make(chan struct{})}
	if knows {
		n.health.SetServingStatus(fitService, healthv1.HealthCheckResponse_SERVING)
	}
	s := grpc.NewServer()
	brokerv1.RegisterBrokerServer(s, n)
	brokerv1.RegisterAdminServer(s, n)
	brokerv1.RegisterAccessServer(s, n)
	healthv1.RegisterHealthServer(s, n.health)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return n, l.Addr().String()
}

// publishTrapped publishes a message through the first node, which does not answer, and returns
// where the result comes.
func publishTrapped(t *testing.T, first *trapped, c *Client) chan error {
	t.Helper()
	p, err := c.Publisher(PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan error, 1)
	err = p.PublishAsync(t.Context(), Message{RoutingKey: "q", Body: []byte("x")}, func(_ Result, err error) { published <- err })
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.opened:
	case <-time.After(time.Minute):
		t.Fatal("no stream was opened to the first node")
	}
	return published
}

func published(t *testing.T, result chan error) {
	t.Helper()
	select {
	case err := <-result:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("not published within a minute")
	}
}

// startsAt returns a client whose streams begin at the first address.
func startsAt(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.nodes.mu.Lock()
	c.nodes.current = 0
	c.nodes.mu.Unlock()
	return c
}

// A client leaves a node that reports that others serve better, even if the node answers all
// probes. Messages without an answer are sent again, and stored once.
func TestClientLeavesUnfitNode(t *testing.T) {
	stored := &storage{seen: map[string]uint64{}}
	bad, badAddress := serveTrapped(t, stored, true)
	good, goodAddress := serveTrapped(t, stored, true)
	close(good.answers)
	c := startsAt(t, Config{Addresses: []string{badAddress, goodAddress}})
	result := publishTrapped(t, bad, c)
	bad.health.SetServingStatus(fitService, healthv1.HealthCheckResponse_NOT_SERVING)
	published(t, result)
	close(bad.answers)
	if len(stored.bodies) != 1 {
		t.Errorf("%d are stored", len(stored.bodies))
	}
}

// A client stays where it is while no other node serves better. An older node without that health
// service counts as good if it serves at all.
func TestClientStaysWhereNoneIsBetter(t *testing.T) {
	stored := &storage{seen: map[string]uint64{}}
	bad, badAddress := serveTrapped(t, stored, true)
	worse, worseAddress := serveTrapped(t, stored, true)
	older, olderAddress := serveTrapped(t, stored, false)
	worse.health.SetServingStatus(fitService, healthv1.HealthCheckResponse_NOT_SERVING)
	older.health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	c := startsAt(t, Config{Addresses: []string{badAddress, worseAddress, olderAddress}})
	result := publishTrapped(t, bad, c)
	bad.health.SetServingStatus(fitService, healthv1.HealthCheckResponse_NOT_SERVING)
	// It asks again and again, so by then more than one check has found nothing.
	n := func() *node {
		c.nodes.mu.Lock()
		defer c.nodes.mu.Unlock()
		return c.nodes.all[badAddress]
	}()
	for range 3 {
		c.nodes.leaveFor(t.Context(), n)
	}
	close(bad.answers)
	published(t, result)
	if len(worse.opened)+len(older.opened) > 0 || len(bad.opened) > 0 {
		t.Error("it went elsewhere, or opened another stream")
	}

	close(older.answers)
	older.health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	select {
	case <-older.opened:
	case <-time.After(time.Minute):
		t.Fatal("it did not go to the node that serves")
	}
}

// A client leaves a connection whose other end has vanished for a node that serves, long before the
// time for a probe is over.
func TestClientLeavesVanishedNode(t *testing.T) {
	stored := &storage{seen: map[string]uint64{}}
	gone, goneAddress := serveTrapped(t, stored, true)
	good, goodAddress := serveTrapped(t, stored, true)
	close(good.answers)
	vanished := make(chan struct{})
	c := startsAt(t, Config{
		Addresses: []string{goneAddress, goodAddress}, ProbeTimeout: 10 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", address)
			if err != nil || address != goneAddress {
				return conn, err
			}
			return &mutable{Conn: conn, vanished: vanished, closed: make(chan struct{})}, nil
		})},
	})
	result := publishTrapped(t, gone, c)
	close(vanished)
	c.nodes.mu.Lock()
	n := c.nodes.all[goneAddress]
	c.nodes.mu.Unlock()
	n.mu.Lock()
	life := n.life
	n.mu.Unlock()
	published(t, result)
	if life.Err() != nil {
		t.Error("it was held for lost, when half the time was over")
	}
	if good.strange.Load() {
		t.Error("it has not logged in on the other node before it went there")
	}
}
