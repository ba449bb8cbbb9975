package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// storage is what the nodes of a test share. It holds bodies in order, and each number of a
// producer once, as the broker promises (PUB-6).
type storage struct {
	mu     sync.Mutex
	seen   map[string]uint64
	bodies []string
}

func (s *storage) store(producer []byte, r *brokerv1.PublishRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.GetSequence() <= s.seen[string(producer)] {
		return
	}
	s.seen[string(producer)] = r.GetSequence()
	s.bodies = append(s.bodies, string(r.GetMessage().GetBody()))
}

// healthyFrom is the sequence from which on everything is answered, because the last messages are
// too few to break a stream.
const healthyFrom = 450

// faultyNode breaks every stream after breakAfter requests, and leaves half of them unanswered.
type faultyNode struct {
	brokerv1.UnimplementedBrokerServer
	brokerv1.UnimplementedAdminServer
	*storage
	breakAfter int
	mu         sync.Mutex
	acked      []uint64
	streams    int
	draining   bool // clients are to leave it
}

func (f *faultyNode) Publish(s grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]) error {
	first, err := s.Recv()
	if err != nil || len(first.GetProducer()) != 16 {
		return status.Errorf(codes.InvalidArgument, "producer has %d bytes, want 16", len(first.GetProducer()))
	}
	for n := 0; n < f.breakAfter; n++ {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		f.store(first.GetProducer(), r)
		if n < f.breakAfter/2 || r.GetSequence() > healthyFrom {
			err := s.Send(&brokerv1.PublishResponse{
				Sequence: r.GetSequence(),
				Result:   &brokerv1.PublishResult{Result: brokerv1.PublishResult_RESULT_CONFIRMED, Queues: 1},
			})
			if err != nil {
				return err
			}
		}
	}
	return status.Error(codes.Unavailable, "broken on purpose")
}

// Consume delivers three messages on each stream. The first stream breaks after a settlement.
func (f *faultyNode) Consume(s grpc.BidiStreamingServer[brokerv1.ConsumeRequest, brokerv1.ConsumeResponse]) error {
	open, err := s.Recv()
	if err != nil {
		return err
	}
	if open.GetOpen().GetQueue() == "missing" {
		return status.Error(codes.NotFound, "queue \"missing\" does not exist")
	}
	f.mu.Lock()
	f.streams++
	stream := f.streams
	f.mu.Unlock()
	_ = s.Send(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Opened{Opened: &brokerv1.ConsumeOpened{Tag: "t"}}})
	d := &brokerv1.Deliveries{}
	for i := range 3 {
		d.Deliveries = append(d.Deliveries, &brokerv1.Delivery{DeliveryId: uint64(i + 1), Body: []byte(fmt.Sprint(stream, "-", i))})
	}
	_ = s.Send(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Deliveries{Deliveries: d}})
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.acked = append(f.acked, r.GetSettlement().GetDeliveryIds()...)
		f.mu.Unlock()
		if n := r.GetSettlement().GetRequest(); n != 0 {
			_ = s.Send(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Settled{Settled: &brokerv1.Settled{Request: n}}})
			if stream == 1 {
				return status.Error(codes.Unavailable, "broken on purpose")
			}
		}
	}
}

func (f *faultyNode) ClusterStatus(context.Context, *brokerv1.ClusterStatusRequest) (*brokerv1.ClusterStatusResponse, error) {
	return &brokerv1.ClusterStatusResponse{Cluster: "test"}, nil
}

func serve(t *testing.T, f interface {
	brokerv1.BrokerServer
	brokerv1.AdminServer
},
) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	brokerv1.RegisterBrokerServer(s, f)
	brokerv1.RegisterAdminServer(s, f)
	if b, is := f.(brokerv1.BackupsServer); is {
		brokerv1.RegisterBackupsServer(s, b)
	}
	h := health.NewServer()
	if x, is := f.(*faultyNode); is && x.draining {
		h.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	}
	healthv1.RegisterHealthServer(s, h)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func dial(t *testing.T, addresses ...string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), Config{Addresses: addresses})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// PUB-6: streams to two nodes break again and again. Every message is answered, and is stored once
// and in order.
func TestPublisherResendsOverBrokenStreams(t *testing.T) {
	shared := &storage{seen: map[string]uint64{}}
	c := dial(t, serve(t, &faultyNode{storage: shared, breakAfter: 37}), serve(t, &faultyNode{storage: shared, breakAfter: 50}))
	p, err := c.Publisher(PublisherConfig{MaxInFlight: 64})
	if err != nil {
		t.Fatal(err)
	}
	const total = 500
	var mu sync.Mutex
	answers := 0
	for i := range total {
		err := p.PublishAsync(t.Context(), Message{RoutingKey: "q", Body: []byte(fmt.Sprint(i))}, func(_ Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("message %d: %v", i, err)
			}
			answers++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answers != total || len(shared.bodies) != total {
		t.Fatalf("%d answers, %d stored, want %d of both", answers, len(shared.bodies), total)
	}
	for i, body := range shared.bodies {
		if body != fmt.Sprint(i) {
			t.Fatalf("stored %q at %d", body, i)
		}
	}
	if p.Resent() == 0 {
		t.Error("nothing was resent: the streams did not break")
	}
}

// PUB-6: a program restarts with the same producer and repeats what was not answered before its
// end. Each message is stored once and in order.
func TestPublisherGoesOnAfterItsEnd(t *testing.T) {
	shared := &storage{seen: map[string]uint64{}}
	// No stream carries that many. A run of the program ends when all of it is confirmed.
	address := serve(t, &faultyNode{storage: shared, breakAfter: 100})
	producer := []byte("sixteen bytes -.")
	const each, again = 30, 12
	for life := range 3 {
		c := dial(t, address)
		p, err := c.Publisher(PublisherConfig{Producer: producer, First: uint64(life*(each-again) + 1)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range each {
			if err := p.PublishAsync(t.Context(), Message{RoutingKey: "q", Body: []byte(fmt.Sprint(life*(each-again) + i))}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if len(shared.bodies) != 3*each-2*again {
		t.Fatalf("%d messages are stored, want %d", len(shared.bodies), 3*each-2*again)
	}
	for i, body := range shared.bodies {
		if body != fmt.Sprint(i) {
			t.Fatalf("stored %q at %d", body, i)
		}
	}
	if _, err := dial(t, address).Publisher(PublisherConfig{Producer: []byte("short")}); err == nil {
		t.Error("a producer of 5 bytes is taken")
	}
}

// A node that is gone ends no client: the next address serves.
func TestClientMovesOn(t *testing.T) {
	c := dial(t, "127.0.0.1:1", serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}, breakAfter: 100}))
	if _, err := c.ClusterStatus(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, Config{Addresses: []string{"127.0.0.1:1"}})
	if !errors.Is(err, context.DeadlineExceeded) || ClassOf(err) != Unavailable {
		t.Fatalf("dial of nobody: %v", err)
	}
}

// DEL-8: decisions go out in one batch, and the deliveries of a lost stream are stale.
func TestConsumerOpensAgain(t *testing.T) {
	f := &faultyNode{storage: &storage{seen: map[string]uint64{}}, breakAfter: 1}
	c := dial(t, serve(t, f))
	s, err := c.Consume(t.Context(), ConsumeConfig{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []*Delivery
	for range 3 {
		d, err := s.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d)
	}
	for _, d := range got[:2] {
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if err := got[0].Ack(); !errors.Is(err, ErrStale) {
		t.Fatalf("second ack: %v", err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := s.Receive(t.Context()) // of the second stream
	if err != nil {
		t.Fatal(err)
	}
	if string(d.Body) != "2-0" {
		t.Fatalf("body %q, want the second stream's first", d.Body)
	}
	if err := got[2].Requeue(false); !errors.Is(err, ErrStale) {
		t.Fatalf("return of a lost stream's delivery: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.acked, []uint64{1, 2}) {
		t.Fatalf("acked %v", f.acked)
	}
	if n := s.Reopened(); n != 1 {
		t.Errorf("opened again %d times, want once", n)
	}
}

func TestConsumeUnknownQueue(t *testing.T) {
	c := dial(t, serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}}))
	_, err := c.Consume(t.Context(), ConsumeConfig{Queue: "missing"})
	var e *Error
	if !errors.As(err, &e) || e.Code != codes.NotFound {
		t.Fatalf("error %v, want NotFound", err)
	}
}

func TestValidate(t *testing.T) {
	if err := (Config{Addresses: []string{"127.0.0.1:7070"}, Password: "p"}).Validate(); err == nil {
		t.Error("a password without a user is taken")
	}
	err := Config{Addresses: []string{"here", "127.0.0.1:7070"}, ProbeTimeout: -1}.Validate()
	if err == nil || Config.Validate(Config{}) == nil {
		t.Fatal("faults pass")
	}
	t.Log(err)
	for name, good := range map[string]bool{"": true, "orders worker 3": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a\nb": false, "é": false} {
		if err := (Config{Addresses: []string{"127.0.0.1:7070"}, Name: name}).Validate(); (err == nil) != good {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

// AM-9: the values of a table arrive with their types.
func TestTableRoundTrip(t *testing.T) {
	in := Table{
		"nil": nil, "bool": true, "int64": int64(-5), "int32": int32(7), "int16": int16(-3), "int8": int8(9),
		"uint64": uint64(1 << 63), "uint32": uint32(8), "uint16": uint16(3), "uint8": uint8(2),
		"float64": 1.5, "float32": float32(2.5), "string": "s", "bytes": []byte("b"), "time": time.Unix(1700000000, 0),
		"decimal": Decimal{Scale: 2, Value: 314}, "table": Table{"x": "y"}, "list": []any{int64(1), "two"},
	}
	p, err := in.proto()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tableFromProto(p)); got != fmt.Sprint(in) {
		t.Fatalf("got  %s\nwant %s", got, fmt.Sprint(in))
	}
	if _, err := (Table{"x": struct{}{}}).proto(); err == nil {
		t.Fatal("a struct passes")
	}
}
