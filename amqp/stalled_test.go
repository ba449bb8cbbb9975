package amqp_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// memoryBeside returns the memory in use beside what three nodes keep to save reads, which has limits of its own.
func memoryBeside(c *testcluster.Cluster) int64 {
	beside := memory()
	for i := range 3 {
		kept, _ := c.Cluster(i).Caches()
		beside -= kept.Bodies + kept.Tail
	}
	return beside
}

// Each client that consumes without a prefetch and reads nothing costs a node no more than its
// bound, though the queue holds far more. The queue's other consumers and other connections
// continue. When the silent connections are gone, their messages are back.
func TestStalledConsumers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const (
		stalled      = 3
		n, size      = 2000, 64 << 10
		bound        = 2 << 20
		perBatch     = 100
		beyondBounds = 24 << 20 // garbage that is not collected yet, and whatever else the cluster uses
	)
	c := testcluster.StartWith(t, 3, broker.Config{DeliveryBufferBytes: bound})
	good := connect(t, c.AMQP(0))
	good.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](good)
	good.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](good)
	body := bytes.Repeat([]byte("x"), size)
	for sent := uint64(0); sent < n; sent += perBatch {
		for range perBatch {
			good.publish("", "q", false, message.Message{Body: body})
		}
		for confirmed := sent; confirmed < sent+perBatch; {
			confirmed = max(confirmed, want[*wire.BasicAck](good).DeliveryTag)
		}
	}
	away := 1 // not the queue's leader: deliveries come from another node
	if c.Index(leaderOf(t, c, "q")) == away {
		away = 2
	}
	s, address := serveOn(t, c, away, amqp.Config{WriteTimeout: time.Hour})
	before := memoryBeside(c)
	slow := make([]*peer, stalled)
	for i := range slow {
		slow[i] = connect(t, address)
		slow[i].send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	}
	testcluster.Poll(t, "the stalled ones have what they may have", func() error {
		if held, stops := c.Broker(away).Buffers.Held(); held < bound/2 || stops < stalled {
			return fmt.Errorf("%d bytes are held, %d stops", held, stops)
		}
		return nil
	})
	// Others continue: on this queue, and on another one of the same node.
	other := connect(t, address)
	other.send(1, &wire.BasicQos{PrefetchCount: 10})
	want[*wire.BasicQosOK](other)
	other.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "other"})
	want[*wire.BasicConsumeOK](other)
	for range 100 {
		d := want[*wire.BasicDeliver](other)
		other.content()
		other.send(1, &wire.BasicAck{DeliveryTag: d.DeliveryTag})
	}
	if held, _ := c.Broker(away).Buffers.Held(); held > stalled*(bound+size+1024)+10*size {
		t.Errorf("%d bytes are held for %d stalled clients, want at most %d for each", held, stalled, bound)
	}
	if grown := memoryBeside(c) - before; grown > stalled*bound+beyondBounds {
		t.Errorf("%d stalled clients cost %d bytes, want about %d each", stalled, grown, bound)
	} else {
		t.Logf("%d stalled clients cost %d bytes; their bound is %d each", stalled, grown, bound)
	}
	for _, p := range slow {
		_ = p.nc.Close()
	}
	testcluster.Poll(t, "the connections are gone", func() error {
		if x := s.Stats(); x.Connections != 1 {
			return errorOf(x)
		}
		return nil
	})
	for range n - 100 {
		d := want[*wire.BasicDeliver](other)
		other.content()
		other.send(1, &wire.BasicAck{DeliveryTag: d.DeliveryTag})
	}
	if held, _ := c.Broker(away).Buffers.Held(); held != 0 {
		t.Errorf("%d bytes are held for nobody", held)
	}
}

// leaderOf returns the name of the node that leads a queue of the vhost "/".
func leaderOf(t *testing.T, c *testcluster.Cluster, queue string) string {
	t.Helper()
	q, err := c.Broker(0).Queues.Get(all(t), "/", queue)
	if err != nil {
		t.Fatal(err)
	}
	return q.Leader
}

// The messages of withoutRoom, and the prefetch of its consumer: more than sockets hold for a client that does not read.
const withoutRoomMessages, withoutRoomPrefetch = 60, 40

// withoutRoom has a client consume from queue "q" and read nothing, so that its consumer "c" has more deliveries than the
// connection has room for.
func withoutRoom(t *testing.T) (c *testcluster.Cluster, p *peer) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const n, size = withoutRoomMessages, 256 << 10
	c = testcluster.StartWith(t, 1, broker.Config{DeliveryBufferBytes: 2 * size})
	p = connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	body := bytes.Repeat([]byte("x"), size)
	for range n {
		p.publish("", "q", false, message.Message{Body: body})
	}
	for confirmed := uint64(0); confirmed < n; {
		confirmed = max(confirmed, want[*wire.BasicAck](p).DeliveryTag)
	}
	p.send(1, &wire.BasicQos{PrefetchCount: withoutRoomPrefetch})
	want[*wire.BasicQosOK](p)
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	want[*wire.BasicConsumeOK](p)
	testcluster.Poll(t, "it has no room", func() error {
		if held, stops := c.Broker(0).Buffers.Held(); stops == 0 {
			return fmt.Errorf("%d bytes are held", held)
		}
		return nil
	})
	return c, p
}

// What was assigned to a consumer before its cancel arrives before cancel-ok, even if the
// connection has no room for all of it at once.
func TestCancelWithoutRoom(t *testing.T) {
	t.Parallel()
	_, p := withoutRoom(t)
	p.send(1, &wire.BasicCancel{ConsumerTag: "c"})
	for i := range uint64(withoutRoomPrefetch) {
		if d := want[*wire.BasicDeliver](p); d.DeliveryTag != i+1 {
			t.Fatalf("%+v, want delivery %d", d, i+1)
		}
		p.content()
	}
	want[*wire.BasicCancelOK](p)
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	p.send(1, &wire.QueueDeclare{Queue: "q", Passive: true})
	if ok := want[*wire.QueueDeclareOK](p); ok.MessageCount != withoutRoomMessages {
		t.Errorf("%d messages in the end, want %d", ok.MessageCount, withoutRoomMessages)
	}
}

// A cancel that is under way when the server closes the connection ends with it: a client that closes at the same time
// gets its answer, and is not cut off.
func TestCloseEndsCancel(t *testing.T) {
	t.Parallel()
	c, p := withoutRoom(t)
	p.send(1, &wire.BasicCancel{ConsumerTag: "c"})
	testcluster.Poll(t, "the cancel is under way", func() error {
		left, _, err := c.Broker(0).Connections.Consumers(all(t), "/", "q")
		if err == nil && len(left) > 0 {
			err = errorOf(left)
		}
		return err
	})
	if err := c.Broker(0).Connections.EndConnection(all(t), p.name(), "it is time"); err != nil {
		t.Fatal(err)
	}
	p.send(0, &wire.ConnectionClose{ReplyCode: 200})
	for closes := 0; ; {
		switch m := p.method().(type) {
		case *wire.BasicDeliver:
			p.content()
		case *wire.ConnectionClose:
			closes++
		case *wire.ConnectionCloseOK:
			if closes != 1 {
				t.Errorf("the server has closed %d times, want once", closes)
			}
			return
		default:
			t.Fatalf("%s %+v", m.ID(), m)
		}
	}
}
