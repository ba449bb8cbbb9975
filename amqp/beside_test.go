package amqp_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/authority"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// attempt is a test that may fail and be tried again.
type attempt struct {
	testing.TB
	said []string // why it has failed
}

func (a *attempt) Error(args ...any)                 { a.said = append(a.said, fmt.Sprint(args...)) }
func (a *attempt) Errorf(format string, args ...any) { a.Error(fmt.Sprintf(format, args...)) }

func (a *attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

// meanwhile runs a scene that must be over before a slow delete is. A machine that is busy with other tests may be slower
// than the delete, so the scene gets several tries, each with names of its own.
func meanwhile(t *testing.T, scene func(t testing.TB, try int)) {
	t.Helper()
	var last *attempt
	for try := range 5 {
		last = &attempt{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			scene(last, try)
		}()
		if <-done; len(last.said) == 0 {
			return
		}
	}
	t.Errorf("each time, lastly: %q", last.said)
}

// slowDelete prepares a queue on channel 1 and returns a delete of it that takes two seconds: the
// queue first tries to dead-letter its message, which cannot succeed.
func (p *peer) slowDelete(queue string) *wire.QueueDelete {
	p.t.Helper()
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	p.send(1, &wire.QueueDeclare{Queue: queue, Durable: true, Arguments: message.Table{
		{Name: "x-queue-type", Value: message.String("quorum")},
		{Name: "x-dead-letter-exchange", Value: message.String("nowhere")},
		{Name: "x-dead-letter-strategy", Value: message.String("at-least-once")},
		{Name: "x-overflow", Value: message.String("reject-publish")},
		{Name: "x-on-delete", Value: message.String("dead-letter")},
	}})
	want[*wire.QueueDeclareOK](p)
	p.publish("", queue, false, message.Message{Body: []byte("x")})
	want[*wire.BasicAck](p)
	return &wire.QueueDelete{Queue: queue}
}

// open opens another channel.
func (p *peer) open(channel uint16) {
	p.t.Helper()
	p.send(channel, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
}

// on reads the next method, which must be an M of a channel.
func on[M wire.Method](p *peer, channel uint16) M {
	p.t.Helper()
	have, m := p.methodOn()
	x, ok := m.(M)
	if !ok || have != channel {
		p.t.Fatalf("%s of channel %d, want %s of %d", m.ID(), have, x.ID(), channel)
	}
	return x
}

// waits has channel 1 wait, and returns when the server has read that.
func (p *peer) waits(m wire.Method) {
	p.t.Helper()
	p.send(1, m)
	p.send(1, &wire.BasicQos{PrefetchCount: 1}) // waits behind it
	p.send(2, &wire.BasicQos{PrefetchCount: 1})
	on[*wire.BasicQosOK](p, 2)
}

// A method that takes long delays its channel, and no other channel of the connection (AM-16).
func TestMethodsBeside(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	s, address := serve(t, c, amqp.Config{})
	scenes := []struct {
		name string
		run  func(*peer, *wire.QueueDelete)
	}{
		{"others go on", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			p.send(1, &wire.BasicQos{PrefetchCount: 1}) // waits behind the delete
			p.send(2, &wire.QueueDeclare{Queue: "quick", Durable: true})
			on[*wire.QueueDeclareOK](p, 2)
			p.send(2, &wire.BasicQos{PrefetchCount: 1})
			on[*wire.BasicQosOK](p, 2)
			on[*wire.QueueDeleteOK](p, 1)
			on[*wire.BasicQosOK](p, 1)
		}},
		{"a fault behind it", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			p.send(1, &wire.QueueDeclare{Queue: "missing", Passive: true})
			p.send(1, &wire.BasicQos{}) // is dropped
			p.send(2, &wire.BasicQos{})
			on[*wire.BasicQosOK](p, 2)
			on[*wire.QueueDeleteOK](p, 1)
			on[*wire.ChannelClose](p, 1)
			p.send(1, &wire.ChannelCloseOK{})
			p.send(1, &wire.ChannelOpen{})
			on[*wire.ChannelOpenOK](p, 1)
		}},
		{"a channel closed and opened behind it", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			p.send(1, &wire.ChannelClose{ReplyCode: 200})
			p.send(1, &wire.ChannelOpen{})
			p.send(1, &wire.BasicQos{})
			on[*wire.QueueDeleteOK](p, 1)
			on[*wire.ChannelCloseOK](p, 1)
			on[*wire.ChannelOpenOK](p, 1)
			on[*wire.BasicQosOK](p, 1)
		}},
		{"the connection's close", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			p.send(1, &wire.QueueDeclare{Queue: "last", Durable: true})
			p.send(0, &wire.ConnectionClose{ReplyCode: 200})
			on[*wire.QueueDeleteOK](p, 1)
			on[*wire.QueueDeclareOK](p, 1)
			on[*wire.ConnectionCloseOK](p, 0)
		}},
		{"a fault of another channel", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			p.send(2, &wire.BasicPublish{Immediate: true})
			on[*wire.QueueDeleteOK](p, 1)
			p.closed(wire.NotImplemented, wire.BasicPublishID)
		}},
		{"a fault of the connection behind it", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			p.send(1, &wire.BasicPublish{Immediate: true})
			p.send(2, &wire.BasicQos{})
			on[*wire.BasicQosOK](p, 2)
			on[*wire.QueueDeleteOK](p, 1)
			p.closed(wire.NotImplemented, wire.BasicPublishID)
		}},
		{"too much behind it", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			for range 4 << 20 / 8000 {
				p.publish("", "nowhere", false, message.Message{Body: make([]byte, 8000)})
			}
			p.send(2, &wire.BasicQos{}) // is not read before there is room
			on[*wire.QueueDeleteOK](p, 1)
			for { // confirms
				if channel, m := p.methodOn(); channel == 2 {
					if m.ID() != wire.BasicQosOKID {
						p.t.Errorf("%s", m.ID())
					}
					return
				}
			}
		}},
		{"the end", func(p *peer, slow *wire.QueueDelete) {
			p.send(1, slow)
			p.send(2, &wire.BasicQos{})
			on[*wire.BasicQosOK](p, 2)
			_ = p.nc.Close()
		}},
	}
	t.Run("all", func(t *testing.T) {
		for _, x := range scenes {
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				meanwhile(t, func(t testing.TB, try int) {
					p := connect(t, address)
					p.open(2)
					x.run(p, p.slowDelete(fmt.Sprint(x.name, try)))
					_ = p.nc.Close()
				})
			})
		}
	})
	testcluster.Poll(t, "all channels are gone", func() error {
		if n := s.Stats(); n.Channels != 0 || n.Connections != 0 {
			return errorOf(n)
		}
		return nil
	})
}

// Each of many channels that work at the same time is answered in its own order (AM-13, AM-16).
func TestChannelsAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const channels, rounds = 50, 5
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	for n := uint16(2); n <= channels; n++ {
		p.open(n)
	}
	var sent []byte
	for range rounds {
		for n := uint16(1); n <= channels; n++ {
			q := fmt.Sprint("q", n)
			sent = wire.AppendMethod(sent, n, &wire.QueueDeclare{Queue: q, Durable: true})
			sent = wire.AppendMethod(sent, n, &wire.QueueBind{Queue: q, Exchange: "amq.direct", RoutingKey: q})
			sent = wire.AppendMethod(sent, n, &wire.BasicPublish{Exchange: "amq.direct", RoutingKey: q})
			sent = wire.AppendContentHeader(sent, n, &message.Message{}, nil)
			sent = wire.AppendMethod(sent, n, &wire.BasicQos{PrefetchCount: n})
			sent = wire.AppendMethod(sent, n, &wire.QueuePurge{Queue: q})
			sent = wire.AppendMethod(sent, n, &wire.QueueDelete{Queue: q})
		}
	}
	go func() { _, _ = p.nc.Write(sent) }()
	order := []wire.MethodID{wire.QueueDeclareOKID, wire.QueueBindOKID, wire.BasicQosOKID, wire.QueuePurgeOKID, wire.QueueDeleteOKID}
	var have [channels + 1]int
	for range channels * rounds * len(order) {
		n, m := p.methodOn()
		if next := order[have[n]%len(order)]; m.ID() != next {
			t.Fatalf("%s as answer %d of channel %d, want %s", m.ID(), have[n], n, next)
		}
		if x, ok := m.(*wire.QueuePurgeOK); ok && x.MessageCount != 1 {
			t.Fatalf("%d messages of channel %d, want 1", x.MessageCount, n)
		}
		have[n]++
	}
}

// A fault that is found beside the reader ends a connection over TLS as well, and the server reads
// the client's close-ok.
func TestFaultBesideTLS(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	a, err := authority.New("clients", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Pair().Cert)
	_, address := serve(t, c, amqp.Config{TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate(t, a, "server", x509.ExtKeyUsageServerAuth)},
	}})
	p := dial(t, address)
	p.nc = tls.Client(p.nc, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: "localhost"})
	p.handshake("guest")
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	want[*wire.BasicConsumeOK](p)
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	p.closed(wire.NotAllowed, wire.BasicConsumeID)
}
