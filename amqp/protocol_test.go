package amqp_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/message"
)

// The server answers what no well-behaved client sends with the code of the specification, and no
// other client suffers.
func TestBadInput(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	good := connect(t, c.AMQP(0))
	for _, x := range []struct {
		name string
		run  func(t *testing.T, p *peer)
	}{
		{"another protocol", func(t *testing.T, p *peer) {
			p.write([]byte("GET / HTTP/1.1\r\n\r\n"))
			var b [8]byte
			if _, err := p.nc.Read(b[:]); err != nil || string(b[:]) != wire.ProtocolHeader {
				t.Errorf("%q, %v", b, err)
			}
			p.ended()
		}},
		{"another version", func(t *testing.T, p *peer) {
			p.write([]byte("AMQP\x00\x01\x00\x00"))
			var b [8]byte
			if _, err := p.nc.Read(b[:]); err != nil || string(b[:]) != wire.ProtocolHeader {
				t.Errorf("%q, %v", b, err)
			}
			p.ended()
		}},
		{"half a header", func(t *testing.T, p *peer) { p.write([]byte("AMQ")); _ = p.nc.Close() }},
		{"unknown mechanism", func(t *testing.T, p *peer) {
			p.start()
			p.send(0, &wire.ConnectionStartOK{Mechanism: "GSSAPI", Response: "x"})
			p.closed(wire.CommandInvalid, wire.ConnectionStartOKID)
		}},
		{"a response without user", func(t *testing.T, p *peer) {
			p.start()
			p.send(0, &wire.ConnectionStartOK{Mechanism: "PLAIN", Response: "guest"})
			p.closed(wire.SyntaxError, wire.ConnectionStartOKID)
		}},
		{"wrong password", func(t *testing.T, p *peer) {
			p.login("gast")
			if text := p.closed(wire.AccessRefused, 0); !strings.HasPrefix(text, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.") {
				t.Error(text)
			}
		}},
		{"wrong password of a client that cannot be told", func(_ *testing.T, p *peer) {
			p.start()
			p.send(0, &wire.ConnectionStartOK{Mechanism: "PLAIN", Response: "\x00guest\x00gast"})
			p.ended()
		}},
		{"unknown vhost", func(t *testing.T, p *peer) {
			p.login("guest")
			want[*wire.ConnectionTune](p)
			p.send(0, &wire.ConnectionTuneOK{})
			p.send(0, &wire.ConnectionOpen{VirtualHost: "nowhere"})
			if text := p.closed(wire.NotAllowed, wire.ConnectionOpenID); text != "NOT_ALLOWED - vhost nowhere not found" {
				t.Error(text)
			}
		}},
		{"small frames", func(_ *testing.T, p *peer) {
			p.login("guest")
			want[*wire.ConnectionTune](p)
			p.send(0, &wire.ConnectionTuneOK{FrameMax: 100})
			p.closed(wire.FrameError, wire.ConnectionTuneOKID)
		}},
		{"a method before the connection is open", func(_ *testing.T, p *peer) {
			p.start()
			p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
			p.closed(wire.CommandInvalid, wire.ConnectionOpenID)
		}},
	} {
		t.Run(x.name, func(t *testing.T) { x.run(t, dial(t, c.AMQP(0))) })
	}
	for _, x := range []struct {
		name string
		run  func(t *testing.T, p *peer)
	}{
		{"wrong last byte", func(_ *testing.T, p *peer) {
			b := wire.AppendMethod(nil, 1, &wire.BasicQos{})
			b[len(b)-1] = 0
			p.write(b)
			p.closed(wire.FrameError, 0)
		}},
		{"frame above frame_max", func(_ *testing.T, p *peer) {
			p.write(wire.AppendBody(nil, 1, make([]byte, 9000), 0))
			p.closed(wire.FrameError, 0)
		}},
		{"unknown type of frame", func(_ *testing.T, p *peer) {
			p.write([]byte{9, 0, 1, 0, 0, 0, 0, 0xCE})
			p.closed(wire.FrameError, 0)
		}},
		{"channel that is not open", func(_ *testing.T, p *peer) {
			p.send(2, &wire.BasicQos{})
			p.closed(wire.ChannelError, wire.BasicQosID)
		}},
		{"channel that was closed", func(_ *testing.T, p *peer) {
			p.send(1, &wire.ChannelClose{ReplyCode: 200})
			want[*wire.ChannelCloseOK](p)
			p.send(1, &wire.BasicQos{})
			p.closed(wire.ChannelError, wire.BasicQosID)
		}},
		{"content on a channel that is not open", func(_ *testing.T, p *peer) {
			p.write(wire.AppendBody(nil, 7, []byte("x"), 0))
			p.closed(wire.ChannelError, 0)
		}},
		{"body shorter than announced", func(_ *testing.T, p *peer) {
			b := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "q"})
			b = wire.AppendContentHeader(b, 1, &message.Message{Body: []byte("longer")}, nil)
			p.write(wire.AppendBody(b, 1, []byte("four"), 0))
			p.publish("", "q", false, message.Message{Body: []byte("x")})
			p.closed(wire.UnexpectedFrame, wire.BasicPublishID)
		}},
		{"channel opened twice", func(_ *testing.T, p *peer) {
			p.send(1, &wire.ChannelOpen{})
			p.closed(wire.ChannelError, wire.ChannelOpenID)
		}},
		{"header without publish", func(_ *testing.T, p *peer) {
			p.write(wire.AppendContentHeader(nil, 1, &message.Message{}, nil))
			p.closed(wire.UnexpectedFrame, 0)
		}},
		{"body without publish", func(_ *testing.T, p *peer) {
			p.write(wire.AppendBody(nil, 1, []byte("x"), 0))
			p.closed(wire.UnexpectedFrame, 0)
		}},
		{"method between publish and header", func(_ *testing.T, p *peer) {
			p.send(1, &wire.BasicPublish{})
			p.send(1, &wire.BasicQos{})
			p.closed(wire.UnexpectedFrame, wire.BasicPublishID)
		}},
		{"body longer than announced", func(_ *testing.T, p *peer) {
			b := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "q"})
			b = wire.AppendContentHeader(b, 1, &message.Message{Body: []byte("four")}, nil)
			p.write(wire.AppendBody(b, 1, []byte("five!"), 0))
			p.closed(wire.FrameError, wire.BasicPublishID)
		}},
		{"body larger than the limit", func(t *testing.T, p *peer) {
			b := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "q"})
			header := wire.AppendContentHeader(nil, 1, &message.Message{}, nil)
			header[7+4] = 0x7f // the highest byte of its size
			p.write(append(b, header...))
			if text := p.channelClosed(wire.PreconditionFailed, wire.BasicPublishID); !strings.Contains(text, "is larger than configured max size 16777216") {
				t.Error(text)
			}
		}},
		{"tables 1,000 deep", func(_ *testing.T, p *peer) {
			p.send(1, &wire.QueueBind{Queue: "q", Arguments: nested(1000)})
			p.closed(wire.SyntaxError, wire.QueueBindID)
		}},
		{"headers 1,000 deep", func(_ *testing.T, p *peer) {
			b := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "q"})
			p.write(wire.AppendContentHeader(b, 1, &message.Message{}, nested(1000)))
			p.closed(wire.SyntaxError, wire.BasicPublishID)
		}},
		{"unknown method", func(_ *testing.T, p *peer) {
			p.write([]byte{1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 1, 0xCE})
			p.closed(wire.CommandInvalid, 0x3c0001)
		}},
		{"a server's method", func(_ *testing.T, p *peer) {
			p.send(1, &wire.BasicConsumeOK{ConsumerTag: "c"})
			p.closed(wire.CommandInvalid, wire.BasicConsumeOKID)
		}},
		{"immediate", func(_ *testing.T, p *peer) {
			p.send(1, &wire.BasicPublish{Immediate: true})
			p.closed(wire.NotImplemented, wire.BasicPublishID)
		}},
		{"prefetch_size", func(_ *testing.T, p *peer) {
			p.send(1, &wire.BasicQos{PrefetchSize: 1})
			p.closed(wire.NotImplemented, wire.BasicQosID)
		}},
		{"recover without requeue", func(_ *testing.T, p *peer) {
			p.send(1, &wire.BasicRecover{})
			p.closed(wire.NotImplemented, wire.BasicRecoverID)
		}},
		{"unknown delivery tag", func(t *testing.T, p *peer) {
			p.send(1, &wire.BasicAck{DeliveryTag: 7})
			if text := p.channelClosed(wire.PreconditionFailed, wire.BasicAckID); text != "PRECONDITION_FAILED - unknown delivery tag 7" {
				t.Error(text)
			}
		}},
		{"publish to a missing exchange", func(t *testing.T, p *peer) {
			p.publish("nowhere", "k", false, message.Message{Body: []byte("x")})
			if text := p.channelClosed(wire.NotFound, wire.BasicPublishID); text != "NOT_FOUND - no exchange 'nowhere' in vhost '/'" {
				t.Error(text)
			}
			p.send(1, &wire.ChannelOpen{}) // the number is free again
			want[*wire.ChannelOpenOK](p)
		}},
		{"passive declare of a missing queue", func(t *testing.T, p *peer) {
			p.send(1, &wire.QueueDeclare{Queue: "missing", Passive: true})
			if text := p.channelClosed(wire.NotFound, wire.QueueDeclareID); text != "NOT_FOUND - no queue 'missing' in vhost '/'" {
				t.Error(text)
			}
		}},
		{"another declaration", func(t *testing.T, p *peer) {
			p.send(1, &wire.QueueDeclare{Queue: "other", Durable: true})
			want[*wire.QueueDeclareOK](p)
			p.send(1, &wire.QueueDeclare{Queue: "other", Durable: true, Arguments: message.Table{{Name: "x-max-length", Value: message.Int32(5)}}})
			text := p.channelClosed(wire.PreconditionFailed, wire.QueueDeclareID)
			if text != "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'other' in vhost '/': received the value '5' of type 'signedint' but current is none" {
				t.Error(text)
			}
		}},
	} {
		t.Run(x.name, func(t *testing.T) { x.run(t, connect(t, c.AMQP(0))) })
	}
	// Another client has not noticed any of that.
	good.send(1, &wire.BasicQos{PrefetchCount: 1})
	want[*wire.BasicQosOK](good)
}

func nested(depth int) message.Table {
	t := message.Table{}
	for range depth {
		t = message.Table{{Name: "t", Value: message.TableValue(t)}}
	}
	return t
}

// A message goes in and out in frames, with its properties, on several channels.
func TestPublishAndConsume(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	m := message.Message{
		Properties: message.Properties{ContentType: "text/plain", MessageID: "7", Timestamp: 12, Has: message.HasPriority},
		Headers:    message.Table{{Name: "n", Value: message.Int8(-3)}, {Name: "b", Value: message.Bytes([]byte{0, 255})}},
		Body:       bytes.Repeat([]byte("0123456789"), 5000),
	}
	p.publish("", "q", false, m)
	if a := want[*wire.BasicAck](p); a.DeliveryTag != 1 {
		t.Errorf("%+v", a)
	}
	// Nobody is bound: the return comes before the confirm (PUB-3).
	p.publish("", "nobody", true, m)
	if r := want[*wire.BasicReturn](p); r.ReplyCode != 312 || r.ReplyText != "NO_ROUTE" || r.RoutingKey != "nobody" {
		t.Errorf("%+v", r)
	}
	if back, body := p.content(); back.MessageID != "7" || !bytes.Equal(body, m.Body) {
		t.Errorf("%+v", back)
	}
	if a := want[*wire.BasicAck](p); a.DeliveryTag != 2 {
		t.Errorf("%+v", a)
	}
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	want[*wire.BasicConsumeOK](p)
	d := want[*wire.BasicDeliver](p)
	if d.ConsumerTag != "c" || d.DeliveryTag != 1 || d.Redelivered || d.RoutingKey != "q" {
		t.Errorf("%+v", d)
	}
	got, body := p.content()
	if !bytes.Equal(body, m.Body) || got.Present() != m.Present() || got.ContentType != m.ContentType || got.Timestamp != m.Timestamp ||
		!message.TableValue(got.Headers).Equal(message.TableValue(m.Headers)) {
		t.Errorf("%+v, want %+v", got, m)
	}
	// The message is rejected and comes again with its counts. The cancel of its consumer leaves it
	// unsettled.
	p.send(1, &wire.BasicReject{DeliveryTag: 1, Requeue: true})
	if d = want[*wire.BasicDeliver](p); d.DeliveryTag != 2 || !d.Redelivered {
		t.Errorf("%+v", d)
	}
	got, _ = p.content()
	if n, _ := got.Headers.Get("x-delivery-count"); !n.EqualClass(message.Int64(1)) {
		t.Errorf("%+v", got.Headers)
	}
	p.send(1, &wire.BasicCancel{ConsumerTag: "c"})
	want[*wire.BasicCancelOK](p)
	p.send(1, &wire.BasicNack{DeliveryTag: 2, Requeue: true})
	p.send(1, &wire.BasicGet{Queue: "q"})
	if g := want[*wire.BasicGetOK](p); g.DeliveryTag != 3 || !g.Redelivered {
		t.Errorf("%+v", g)
	}
	p.content()
	p.send(1, &wire.BasicAck{Multiple: true})
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	p.send(0, &wire.ConnectionClose{ReplyCode: 200})
	want[*wire.ConnectionCloseOK](p)
	p.ended()
}

// The consumers of a deleted queue are notified (CN-1), and a node that stops notifies its clients.
func TestNotices(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	want[*wire.BasicConsumeOK](p)
	other.send(1, &wire.QueueDelete{Queue: "q"})
	want[*wire.QueueDeleteOK](other)
	if x := want[*wire.BasicCancel](p); x.ConsumerTag != "c" {
		t.Errorf("%+v", x)
	}
	p.send(1, &wire.BasicCancel{ConsumerTag: "c"}) // sent before the notice came
	want[*wire.BasicCancelOK](p)
	other.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](other)
	for range 2 { // under a tag that the server has freed
		p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
		want[*wire.BasicConsumeOK](p)
		other.send(1, &wire.QueueDelete{Queue: "q"})
		want[*wire.QueueDeleteOK](other)
		want[*wire.BasicCancel](p)
		other.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
		want[*wire.QueueDeclareOK](other)
	}
}

// A client cancels its consumer while another one deletes the queue: cancel-ok comes, and the channel stays.
func TestCancelAndDelete(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	for range 20 {
		other.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
		want[*wire.QueueDeclareOK](other)
		p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
		want[*wire.BasicConsumeOK](p)
		other.send(1, &wire.QueueDelete{Queue: "q"})
		p.send(1, &wire.BasicCancel{ConsumerTag: "c"})
		switch m := p.method().(type) {
		case *wire.BasicCancel: // the server's notice was on its way
			want[*wire.BasicCancelOK](p)
		case *wire.BasicCancelOK:
		default:
			t.Fatalf("%s %+v", m.ID(), m)
		}
		want[*wire.QueueDeleteOK](other)
	}
}

// A consumer that keeps a delivery for too long is cancelled for good, and another one gets the
// message. A late ack changes nothing (CT-3, CT-4).
func TestConsumerTimeout(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "slow", Arguments: message.Table{{Name: "x-consumer-timeout", Value: message.Int32(1500)}}})
	want[*wire.BasicConsumeOK](p)
	other.publish("", "q", false, message.Message{Body: []byte("x")})
	want[*wire.BasicDeliver](p)
	p.content()
	if x := want[*wire.BasicCancel](p); x.ConsumerTag != "slow" {
		t.Errorf("%+v", x)
	}
	p.send(1, &wire.BasicCancel{ConsumerTag: "slow"}) // sent before the notice came
	want[*wire.BasicCancelOK](p)
	other.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	want[*wire.BasicConsumeOK](other)
	if d := want[*wire.BasicDeliver](other); !d.Redelivered {
		t.Errorf("%+v", d)
	}
	other.content()
	p.send(1, &wire.BasicAck{DeliveryTag: 1})
	p.send(1, &wire.QueueDeclare{Queue: "q", Passive: true})
	if d := want[*wire.QueueDeclareOK](p); d.ConsumerCount != 1 {
		t.Errorf("%+v", d)
	}
}

// What a transaction publishes and settles takes effect with its commit, or not at all.
func TestTransaction(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.TxSelect{})
	want[*wire.TxSelectOK](p)
	count := func(want32 uint32) {
		t.Helper()
		p.send(1, &wire.QueueDeclare{Queue: "q", Passive: true})
		if d := want[*wire.QueueDeclareOK](p); d.MessageCount != want32 {
			t.Errorf("%d messages, want %d", d.MessageCount, want32)
		}
	}
	p.publish("", "q", false, message.Message{Body: []byte("one")})
	count(0)
	p.send(1, &wire.TxRollback{})
	want[*wire.TxRollbackOK](p)
	count(0)
	const messages = 5
	for range messages {
		p.publish("", "q", false, message.Message{Body: []byte("two")})
	}
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	count(messages)
	for range messages {
		p.send(1, &wire.BasicGet{Queue: "q"})
		want[*wire.BasicGetOK](p)
		p.content()
	}
	ackMost := func() { // one by one, except the last
		for tag := uint64(1); tag < messages; tag++ {
			p.send(1, &wire.BasicAck{DeliveryTag: tag})
		}
	}
	ackMost()
	p.send(1, &wire.TxRollback{})
	want[*wire.TxRollbackOK](p)
	ackMost() // they are open again
	p.send(1, &wire.BasicAck{DeliveryTag: messages, Multiple: true})
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	p.send(1, &wire.ConfirmSelect{})
	p.channelClosed(wire.PreconditionFailed, wire.ConfirmSelectID)
}

// A server that stops does not wait for a commit without an answer: here two of three nodes are
// gone.
func TestShutdownDuringCommit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	s, address := serve(t, c, amqp.Config{})
	p := connect(t, address)
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{{Name: argument.LeaderLocator, Value: message.String("client-local")}}})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.TxSelect{})
	want[*wire.TxSelectOK](p)
	p.publish("", "q", false, message.Message{Body: []byte("one")})
	p.send(1, &wire.TxRollback{}) // all that was sent has arrived
	want[*wire.TxRollbackOK](p)
	c.Kill(1)
	c.Kill(2)
	body := bytes.Repeat([]byte("x"), 100_000)
	p.publish("", "q", false, message.Message{Body: body})
	appended := func() uint64 { s, _ := c.Cluster(0).LogStats(); return s.Appended }
	before := appended()
	p.send(1, &wire.TxCommit{})
	// The queue's leader has it, and nobody else ever will. On a busy machine the leader may have resigned before: then the
	// commit waits for the next one.
	for resigned := time.Now().Add(5 * time.Second); appended() < before+uint64(len(body)) && time.Now().Before(resigned); {
		if err := wait.For(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ended()) }()
	select {
	case err := <-stopped:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it waits for the commit")
	}
}

// A server that stops notifies its clients, and is done when they have left.
func TestShutdown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	s, address := serve(t, c, amqp.Config{})
	p := connect(t, address)
	if now := s.Stats(); now.Connections != 1 || now.Channels != 1 || now.Opened != 1 {
		t.Errorf("%+v", now)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	if text := p.closed(wire.ConnectionForced, 0); !strings.HasPrefix(text, "CONNECTION_FORCED - ") {
		t.Error(text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if now := s.Stats(); now.Connections != 0 || now.Channels != 0 || now.Consumers != 0 || now.Closed != 1 {
		t.Errorf("%+v", now)
	}
	if now := c.Broker(0).Counters().Churn; now.ConnectionsOpened != 1 || now.ConnectionsClosed != 1 || now.ChannelsOpened != 1 || now.ChannelsClosed != 1 {
		t.Errorf("%+v", now)
	}
}
