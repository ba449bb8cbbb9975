package amqp_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// timeToLogIn is short, and long enough to log in on a machine that is busy with other tests.
const timeToLogIn = 6 * time.Second

// The server closes a silent connection: after the time to log in, or when no heartbeat comes.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	s, address := serve(t, c, amqp.Config{Gate: gate.New(gate.Config{LoginTimeout: timeToLogIn})})
	silent := dial(t, address)
	silent.start()
	silent.ended()
	testcluster.Poll(t, "it is counted", func() error {
		if x := s.Stats(); x.Refused != 1 {
			return errorOf(x)
		}
		return nil
	})
	logged := dial(t, address) // logs in, and never opens a vhost
	logged.login("guest")
	want[*wire.ConnectionTune](logged)
	logged.send(0, &wire.ConnectionTuneOK{Heartbeat: 2 * uint16(patience/time.Second)})
	logged.ended()
	_, slow := serve(t, c, amqp.Config{})
	p := dial(t, slow)
	p.login("guest")
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{Heartbeat: 1})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	want[*wire.ConnectionOpenOK](p)
	p.ended() // it sends no heartbeat
}

// A connection may have as many channels as it agreed on and not one more. Each costs little, and
// nothing once it is closed.
func TestManyChannels(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	const n = 65535
	s, address := serve(t, c, amqp.Config{ChannelMax: n})
	p := dial(t, address)
	p.login("guest")
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{ChannelMax: n})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	want[*wire.ConnectionOpenOK](p)
	before := memory()
	var all []byte
	for i := 1; i <= n; i++ {
		all = wire.AppendMethod(all, uint16(i), &wire.ChannelOpen{})
	}
	go func() { _, _ = p.nc.Write(all) }() // its answers fill the sockets meanwhile
	for range n {
		want[*wire.ChannelOpenOK](p)
	}
	if x := s.Stats(); x.Channels != n {
		t.Errorf("%+v", x)
	}
	all = nil
	each := (memory() - before) / n
	t.Logf("%d bytes for a channel", each)
	if each > 2<<10 {
		t.Errorf("%d bytes for each channel, want at most 2 KiB", each)
	}
	_ = p.nc.Close()
	testcluster.Poll(t, "the channels are gone", func() error {
		if x := s.Stats(); x.Channels != 0 || x.Connections != 0 {
			return errorOf(x)
		}
		return nil
	})
	// A channel number above the agreed maximum is refused.
	p = connect(t, c.AMQP(0)) // 100 of them
	for i := uint16(2); i <= 100; i++ {
		p.send(i, &wire.ChannelOpen{})
		want[*wire.ChannelOpenOK](p)
	}
	p.send(101, &wire.ChannelOpen{})
	if text := p.closed(wire.NotAllowed, wire.ChannelOpenID); !strings.Contains(text, "channel_max (100)") {
		t.Error(text)
	}
}

// When a server stops, it notifies its clients, and every goroutine that serves them ends, whatever
// it was doing.
func TestNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	declarer := connect(t, c.AMQP(0))
	declarer.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](declarer)
	before := runtime.NumGoroutine()
	s, address := serve(t, c, amqp.Config{})
	unauthenticated, half, consumer, publisher := dial(t, address), dial(t, address), connect(t, address), connect(t, address)
	half.start()
	consumer.send(1, &wire.BasicConsume{Queue: "q"})
	want[*wire.BasicConsumeOK](consumer)
	publisher.publish("", "q", false, message.Message{Body: []byte("x")})
	want[*wire.BasicDeliver](consumer)
	consumer.content()
	publisher.send(1, &wire.BasicPublish{RoutingKey: "q"}) // and no content
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	unauthenticated.ended()
	_ = unauthenticated.nc.Close()
	for _, p := range []*peer{half, consumer, publisher} {
		if text := want[*wire.ConnectionClose](p).ReplyText; text != "CONNECTION_FORCED - the node is stopping; connect to another one" {
			t.Error(text)
		}
		p.send(0, &wire.ConnectionCloseOK{})
		p.ended()
		_ = p.nc.Close()
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	testcluster.Poll(t, "no goroutine is left", func() error {
		if now := runtime.NumGoroutine(); now > before {
			return errorOf(now - before)
		}
		return nil
	})
}
