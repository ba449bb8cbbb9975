package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// deaf is a connection that is no longer read once is is set, until it is closed.
type deaf struct {
	net.Conn
	is     atomic.Bool
	closed chan struct{}
}

// Read implements net.Conn.
func (d *deaf) Read(b []byte) (int, error) {
	if d.is.Load() {
		<-d.closed
		return 0, io.EOF
	}
	return d.Conn.Read(b)
}

// consumeDeaf consumes a queue over AMQP and stops to read.
func consumeDeaf(t *testing.T, address, queue string) {
	t.Helper()
	d := &deaf{closed: make(chan struct{})}
	conn, err := amqp.DialConfig("amqp://guest:guest@"+address+"/", amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		var err error
		d.Conn, err = amqp.DefaultDial(10*time.Second)(network, address)
		return d, err
	}})
	must(t, err)
	t.Cleanup(func() {
		close(d.closed)
		_ = conn.Close()
	})
	ch, err := conn.Channel()
	must(t, err)
	_, err = ch.Consume(queue, "", true, false, false, false, nil)
	must(t, err)
	d.is.Store(true)
}

// view opens a stream of events over HTTP, and does not read it.
func view(ctx context.Context, t *testing.T, n *chaos.Node) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Management+"/v1/events", http.NoBody)
	must(t, err)
	request.SetBasicAuth("guest", "guest")
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
}

// A node stops in time and in order, although no other node answers, and none of its clients: queues have no majority,
// messages are under way that nobody will confirm, AMQP clients do not read, a page is open, and somebody has connected
// who never says a word.
func TestStopAmongSilence(t *testing.T) {
	t.Parallel()
	c, err := chaos.NewCluster(chaos.ClusterConfig{
		Binary: build(t), Dir: t.TempDir(), Managed: true, Settings: "timeouts:\n  drain: 5s\n  login: 1h\n",
	})
	must(t, err)
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	must(t, c.Start(ctx))
	first := c.Nodes[0]
	cl := at(ctx, t, first)
	for _, q := range []string{"read", "stuck"} {
		_, err := cl.DeclareQueue(ctx, client.Queue{Name: q})
		must(t, err, cl.TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: q, Node: first.ID}))
	}
	consumeDeaf(t, first.AMQP, "read")
	for range 64 { // more than sockets hold
		_, err := cl.PublishOne(ctx, client.Message{RoutingKey: "read", Body: make([]byte, 256<<10)})
		must(t, err)
	}
	view(ctx, t, first)
	for _, address := range []string{first.Client, first.AMQP, first.Management, first.Peer} {
		silent, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = silent.Close() })
	}
	must(t, c.Nodes[1].Pause(), c.Nodes[2].Pause())
	p, err := cl.Publisher(client.PublisherConfig{})
	must(t, err)
	for range 100 { // nobody will have them
		must(t, p.PublishAsync(ctx, client.Message{RoutingKey: "stuck", Body: []byte("x")}, func(client.Result, error) {}))
	}
	began := time.Now()
	must(t, first.Stop(ctx))
	t.Logf("it stopped after %v", time.Since(began).Round(time.Millisecond))
}
