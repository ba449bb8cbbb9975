package amqp_test

import (
	"context"
	"fmt"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// flood sends more than the buffers of a socket hold, so that the server must read all of it.
func (p *peer) flood(frames int) {
	p.t.Helper()
	for range frames {
		p.publish("", "nowhere", false, message.Message{Body: make([]byte, 64<<10)})
	}
}

// After connection.close-ok the server lets the client close the socket: the server reads what the
// client still had to send, and the client loses nothing that was sent to it (AM-10).
func TestCloseIsTheClients(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	p := connect(t, address)
	p.send(0, &wire.ConnectionClose{ReplyCode: 200, ReplyText: "bye"})
	p.flood(256)
	want[*wire.ConnectionCloseOK](p)
	p.flood(256)
	if err := p.nc.Close(); err != nil {
		t.Error(err)
	}

	// If a client never closes the socket, the server does.
	p = connect(t, address)
	p.send(0, &wire.ConnectionClose{ReplyCode: 200, ReplyText: "bye"})
	want[*wire.ConnectionCloseOK](p)
	p.ended()
}

// The reason of a close reaches a client that keeps sending (AM-10).
func TestCloseReachesWhoSends(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	for _, bad := range [][]byte{
		{9, 0, 1, 0, 0, 0, 0, 0xce}, // an unknown type of frame: nothing after it can be read
		wire.AppendMethod(nil, 1, &wire.ChannelOpen{}),
	} {
		p := connect(t, address)
		p.write(bad)
		p.flood(128)
		if got := want[*wire.ConnectionClose](p); got.ReplyCode < 500 {
			t.Errorf("closed with %d %s", got.ReplyCode, got.ReplyText)
		}
		p.send(0, &wire.ConnectionCloseOK{})
		p.ended()
	}
}

// gracefulCloses is how many connections TestGracefulCloses closes.
const gracefulCloses = 300

// Closing a connection is no error to the Go library. The library would report one if the stream
// ended before its reader got close-ok (AM-10).
func TestGracefulCloses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range gracefulCloses {
		conn, err := amqp091.Dial("amqp://guest:guest@" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		closed := conn.NotifyClose(make(chan *amqp091.Error, 1))
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if err := ch.PublishWithContext(ctx, "", "nowhere", false, false, amqp091.Publishing{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("close %d: %v", i, err)
		}
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("close %d was told as %v", i, err)
			}
		case <-ctx.Done():
			t.Fatalf("close %d is not over", i)
		}
	}
}

// A channel that the server closes while a method runs on it gets no answer of that method: clients
// take a method of a closed channel for a fault of the connection.
func TestNoAnswerBehindClose(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	other := connect(t, address)
	t.Run("of the channel", func(t *testing.T) {
		meanwhile(t, func(t testing.TB, try int) { channelCloses(t, address, other, try) })
	})
	t.Run("of the connection", func(t *testing.T) {
		end := func(name string) error { return c.Broker(0).Connections.EndConnection(all(t), name, "for a test") }
		meanwhile(t, func(t testing.TB, try int) { connectionCloses(t, address, other, end, try) })
	})
}

// channelCloses has the server close a channel on which a slow delete runs, because its consumer times out.
func channelCloses(t testing.TB, address string, other *peer, try int) {
	held, gone := fmt.Sprint("held", try), fmt.Sprint("slow", try)
	p := dial(t, address)
	p.start()
	p.send(0, &wire.ConnectionStartOK{Mechanism: "PLAIN", Response: "\x00guest\x00guest"}) // without consumer_cancel_notify
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	want[*wire.ConnectionOpenOK](p)
	p.open(1)
	slow := p.slowDelete(gone)
	p.send(1, &wire.QueueDeclare{Queue: held, Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.BasicConsume{Queue: held, Arguments: message.Table{{Name: "x-consumer-timeout", Value: message.Int32(1000)}}})
	want[*wire.BasicConsumeOK](p)
	p.send(1, slow) // is on its way when the consumer's time begins
	other.publish("", held, false, message.Message{Body: []byte("x")})
	want[*wire.BasicDeliver](p)
	p.content()
	p.channelClosed(wire.PreconditionFailed, 0)
	p.open(1) // waits behind the delete, and is the next that comes
	p.send(1, &wire.QueueDeclare{Queue: gone, Passive: true})
	p.channelClosed(wire.NotFound, wire.QueueDeclareID)
}

// connectionCloses has an operator end a connection with a channel on which a slow delete runs.
func connectionCloses(t testing.TB, address string, other *peer, end func(name string) error, try int) {
	flow := fmt.Sprint("flow", try)
	p := connect(t, address)
	slow := p.slowDelete(fmt.Sprint("slow too", try))
	p.open(2)
	p.send(2, &wire.QueueDeclare{Queue: flow, Durable: true})
	on[*wire.QueueDeclareOK](p, 2)
	p.send(2, &wire.BasicConsume{Queue: flow, NoAck: true})
	on[*wire.BasicConsumeOK](p, 2)
	p.waits(slow)
	if err := end(p.name()); err != nil {
		t.Fatal(err)
	}
	want[*wire.ConnectionClose](p)
	for range 10 {
		other.publish("", flow, false, message.Message{Body: []byte("x")})
	}
	p.ended() // with neither an answer nor a delivery; the method ends before the connection is cut
}
