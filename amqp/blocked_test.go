package amqp_test

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// serve starts a server of its own over the first node's broker.
func serve(t *testing.T, c *testcluster.Cluster, cfg amqp.Config) (*amqp.Server, string) {
	t.Helper()
	return serveOn(t, c, 0, cfg)
}

// serveOn is like serve, on the given node of the cluster.
func serveOn(t *testing.T, c *testcluster.Cluster, node int, cfg amqp.Config) (*amqp.Server, string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Broker = c.Broker(node)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	s := amqp.New(cfg)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Shutdown(ended()) // cuts off what a test has left open
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// While the node has an alarm, a publisher is notified and waits, and everybody else continues.
// After the alarm the publisher's message arrives (PUB-10).
func TestAlarm(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	s, address := serve(t, c, amqp.Config{})
	p, other := connect(t, address), connect(t, address)
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	other.send(1, &wire.BasicConsume{Queue: "q", NoAck: true})
	want[*wire.BasicConsumeOK](other)
	c.Broker(0).Alarms.Raise("the memory is full")
	p.publish("", "q", false, message.Message{Body: []byte("x")})
	if b := want[*wire.ConnectionBlocked](p); b.Reason != "the memory is full" {
		t.Errorf("%+v", b)
	}
	list, _, err := c.Broker(0).Connections.ClientConnections(all(t), "", "")
	if err != nil || len(list) != 2 || list[0].State != connections.ConnectionBlocked || list[1].State != connections.ConnectionRunning {
		t.Errorf("%+v, %v, want the older one blocked", list, err)
	}
	other.send(1, &wire.QueueDeclare{Queue: "q", Passive: true})
	if d := want[*wire.QueueDeclareOK](other); d.MessageCount != 0 {
		t.Errorf("%+v", d)
	}
	c.Broker(0).Alarms.End()
	want[*wire.ConnectionUnblocked](p)
	want[*wire.BasicAck](p)
	want[*wire.BasicDeliver](other)
	// A node that stops does not wait for blocked clients.
	c.Broker(0).Alarms.Raise("again")
	other.content()
	p.publish("", "q", false, message.Message{Body: []byte("y")})
	want[*wire.ConnectionBlocked](p)
	if n := s.Stats().Blocked; n != 2 {
		t.Errorf("blocked %d times, want 2", n)
	}
	if err := c.Broker(0).Connections.EndConnection(all(t), p.name(), "go away"); err != nil {
		t.Error(err)
	}
	if text := p.closed(wire.ConnectionForced, 0); !strings.Contains(text, "go away") {
		t.Error(text)
	}
	c.Broker(0).Alarms.End()
}

// A client cannot stop deliveries with channel.flow (AM-12), but it may ask for their continuation.
func TestFlow(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	p.send(1, &wire.ChannelFlow{Active: true})
	if ok := want[*wire.ChannelFlowOK](p); !ok.Active {
		t.Errorf("%+v", ok)
	}
	p.send(1, &wire.ChannelFlow{Active: false})
	x := want[*wire.ConnectionClose](p)
	if wire.ReplyCode(x.ReplyCode) != wire.NotImplemented || x.ReplyText != "NOT_IMPLEMENTED - active=false" {
		t.Errorf("%+v", x)
	}
}

// A client that reads nothing of what it is sent is cut off, and another one gets its messages.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	s, address := serve(t, c, amqp.Config{WriteTimeout: 200 * time.Millisecond})
	good, bad := connect(t, c.AMQP(0)), connect(t, address)
	good.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](good)
	good.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](good)
	bad.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	const n, size = 400, 64 << 10 // more than sockets hold
	body := bytes.Repeat([]byte("x"), size)
	for range n {
		good.publish("", "q", false, message.Message{Body: body})
	}
	for confirmed := uint64(0); confirmed < n; {
		confirmed = max(confirmed, want[*wire.BasicAck](good).DeliveryTag)
	}
	testcluster.Poll(t, "the client is cut off", func() error {
		if now := s.Stats(); now.Stalled != 1 || now.Connections != 0 {
			return errorOf(now)
		}
		return nil
	})
	good.send(1, &wire.BasicConsume{Queue: "q", NoAck: true})
	want[*wire.BasicConsumeOK](good)
	for range n {
		want[*wire.BasicDeliver](good)
		good.content()
	}
}
