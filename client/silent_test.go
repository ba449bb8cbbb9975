package client

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// mutable is a connection whose other end can vanish silently: from then on what is written is
// lost, and a read blocks until the connection is closed.
type mutable struct {
	net.Conn
	vanished, closed chan struct{}
	once             sync.Once
}

func (m *mutable) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	select {
	case <-m.vanished:
		<-m.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (m *mutable) Write(b []byte) (int, error) {
	select {
	case <-m.vanished:
		return len(b), nil
	default:
		return m.Conn.Write(b)
	}
}

func (m *mutable) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// An address, that of a service, leads to a node that drains, and the others that the client knows lead nowhere. A new
// connection to the service reaches another node.
func TestClientLeavesDrainingNodeOfService(t *testing.T) {
	t.Parallel()
	stored := &storage{seen: map[string]uint64{}}
	behind := []string{serve(t, &faultyNode{storage: stored, draining: true}), serve(t, &faultyNode{storage: stored})}
	const service = "service.test:7070"
	var dials atomic.Int32
	dialer := func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		if address == service {
			address = behind[min(int(dials.Add(1)), len(behind))-1]
		}
		return d.DialContext(ctx, "tcp", address)
	}
	c, err := New(Config{
		Addresses: []string{service, "127.0.0.1:1"}, FixedAddresses: true, DialOptions: []grpc.DialOption{grpc.WithContextDialer(dialer)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.ClusterStatus(ctx); err != nil || dials.Load() < 2 {
		t.Errorf("%v, after %d connections to the service", err, dials.Load())
	}
}

// The only address, that of a service, stands for another node after the first one vanished with
// its machine. Nobody closes the old connection, but a new one reaches the other node.
func TestClientLeavesSilentConnections(t *testing.T) {
	vanished := make(chan struct{})
	var dialed atomic.Bool
	dialer := func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil || dialed.Swap(true) {
			return conn, err
		}
		return &mutable{Conn: conn, vanished: vanished, closed: make(chan struct{})}, nil
	}
	stored := &storage{seen: map[string]uint64{}}
	c, err := Dial(t.Context(), Config{
		Addresses:     []string{serve(t, &faultyNode{storage: stored, breakAfter: 100})},
		ProbeInterval: 50 * time.Millisecond, ProbeTimeout: 200 * time.Millisecond,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dialer)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p, err := c.Publisher(PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, body := range []string{"before", "after"} {
		if _, err := p.Publish(ctx, Message{RoutingKey: "q", Body: []byte(body)}); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if i == 0 {
			close(vanished)
		}
	}
	if _, err := c.ClusterStatus(ctx); err != nil {
		t.Fatal(err)
	}
}
