package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/message"
)

// patience is how long a test waits for something that must happen, each time anew.
const patience = 30 * time.Second

// peer is a client that sends and reads single frames, so that it can do what no library does.
type peer struct {
	t        testing.TB
	nc       net.Conn
	in       []byte
	patience time.Duration // with each read and write
}

func dial(t testing.TB, address string) *peer {
	t.Helper()
	nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &peer{t: t, nc: nc, patience: patience}
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	_ = p.nc.SetWriteDeadline(time.Now().Add(p.patience)) // Write fails if this does
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(channel uint16, m wire.Method) {
	p.t.Helper()
	p.write(wire.AppendMethod(nil, channel, m))
}

// frame reads the next frame that is no heartbeat; ok is false at the connection's end.
func (p *peer) frame() (f wire.Frame, ok bool) {
	p.t.Helper()
	for {
		f, n, _, err := wire.ParseFrame(p.in, 0)
		if err != nil {
			p.t.Fatal(err)
		}
		if n > 0 {
			f.Payload = append([]byte(nil), f.Payload...)
			if p.in = p.in[n:]; f.Type == wire.FrameHeartbeat {
				continue
			}
			return f, true
		}
		var b [4096]byte
		_ = p.nc.SetReadDeadline(time.Now().Add(p.patience)) // Read fails if this does
		n, err = p.nc.Read(b[:])
		p.in = append(p.in, b[:n]...)
		if n > 0 {
			continue
		}
		if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
			p.t.Fatal("nothing came, not even the end")
		}
		return wire.Frame{}, false
	}
}

// method reads the next frame, which must be a method.
func (p *peer) method() wire.Method {
	p.t.Helper()
	_, m := p.methodOn()
	return m
}

// methodOn is like method, and also returns the channel.
func (p *peer) methodOn() (uint16, wire.Method) {
	p.t.Helper()
	f, ok := p.frame()
	if !ok {
		p.t.Fatal("the connection ended")
	}
	if f.Type != wire.FrameMethod {
		p.t.Fatalf("a frame of type %d, want a method", f.Type)
	}
	m, err := wire.ParseMethod(f.Payload, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return f.Channel, m
}

// want reads the next method, which must be an M.
func want[M wire.Method](p *peer) M {
	p.t.Helper()
	m := p.method()
	x, ok := m.(M)
	if !ok {
		p.t.Fatalf("%s %+v, want %s", m.ID(), m, x.ID())
	}
	return x
}

// closed reads connection.close, answers it, reads to the connection's end, and returns the text.
func (p *peer) closed(code wire.ReplyCode, id wire.MethodID) string {
	p.t.Helper()
	c := want[*wire.ConnectionClose](p)
	if wire.ReplyCode(c.ReplyCode) != code || c.ClassID != id.Class() || c.MethodID != id.Method() {
		p.t.Errorf("closed with %d %q of %d.%d, want %d of %s", c.ReplyCode, c.ReplyText, c.ClassID, c.MethodID, code, id)
	}
	p.send(0, &wire.ConnectionCloseOK{})
	p.ended()
	return c.ReplyText
}

// ended expects the connection's end as the next thing to read.
func (p *peer) ended() {
	p.t.Helper()
	if f, ok := p.frame(); ok {
		p.t.Errorf("%+v after the end", f)
	}
}

// channelClosed reads channel.close, answers it, and returns the text.
func (p *peer) channelClosed(code wire.ReplyCode, id wire.MethodID) string {
	p.t.Helper()
	c := want[*wire.ChannelClose](p)
	if wire.ReplyCode(c.ReplyCode) != code || c.ClassID != id.Class() || c.MethodID != id.Method() {
		p.t.Errorf("closed with %d %q of %d.%d, want %d of %s", c.ReplyCode, c.ReplyText, c.ClassID, c.MethodID, code, id)
	}
	p.send(1, &wire.ChannelCloseOK{})
	return c.ReplyText
}

// start begins a connection and reads connection.start.
func (p *peer) start() {
	p.t.Helper()
	p.write([]byte(wire.ProtocolHeader))
	want[*wire.ConnectionStart](p)
}

// login begins a connection and logs in as guest; the answer is not read yet.
func (p *peer) login(password string) {
	p.t.Helper()
	p.loginAs("guest", password)
}

func (p *peer) loginAs(user, password string) {
	p.t.Helper()
	p.start()
	p.send(0, &wire.ConnectionStartOK{
		Mechanism: "PLAIN", Response: "\x00" + user + "\x00" + password, Locale: "en_US",
		ClientProperties: message.Table{{Name: "capabilities", Value: message.TableValue(message.Table{
			{Name: "authentication_failure_close", Value: message.Bool(true)},
			{Name: "consumer_cancel_notify", Value: message.Bool(true)},
			{Name: "connection.blocked", Value: message.Bool(true)},
		})}},
	})
}

// connect opens a connection as guest, and channel 1.
func connect(t testing.TB, address string) *peer {
	t.Helper()
	return connectAs(t, address, "guest")
}

// connectAs is like connect, for a user whose password is the user's name.
func connectAs(t testing.TB, address, user string) *peer {
	t.Helper()
	p := dial(t, address)
	p.handshake(user)
	return p
}

// handshake opens the connection and channel 1. The user's password is the user's name.
func (p *peer) handshake(user string) {
	p.t.Helper()
	p.loginAs(user, user)
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{ChannelMax: 100, FrameMax: 8192})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	want[*wire.ConnectionOpenOK](p)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
}

// content reads a content header and the body of the length that the header gives.
func (p *peer) content() (message.Message, []byte) {
	p.t.Helper()
	f, ok := p.frame()
	if !ok || f.Type != wire.FrameHeader {
		p.t.Fatalf("%+v, want a content header", f)
	}
	var m message.Message
	size, err := wire.ParseContentHeader(f.Payload, &m)
	if err != nil {
		p.t.Fatal(err)
	}
	var body []byte
	for uint64(len(body)) < size {
		f, ok := p.frame()
		if !ok || f.Type != wire.FrameBody {
			p.t.Fatalf("%+v, want a body", f)
		}
		body = append(body, f.Payload...)
	}
	return m, body
}

// publish sends a message on channel 1, in frames of the agreed size.
func (p *peer) publish(exchange, key string, mandatory bool, m message.Message) {
	p.t.Helper()
	p.publishOn(1, &wire.BasicPublish{Exchange: exchange, RoutingKey: key, Mandatory: mandatory}, m)
}

// publishOn is publish on any channel.
func (p *peer) publishOn(channel uint16, x *wire.BasicPublish, m message.Message) {
	p.t.Helper()
	b := wire.AppendMethod(nil, channel, x)
	b = wire.AppendContentHeader(b, channel, &m, m.Headers)
	p.write(wire.AppendBody(b, channel, m.Body, 8192))
}

// name returns the connection's name on the server.
func (p *peer) name() string { return p.nc.LocalAddr().String() + " -> " + p.nc.RemoteAddr().String() }

// ended returns a context that has already ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func errorOf(have any) error { return fmt.Errorf("%+v", have) }

// all returns a context that may do everything.
func all(t *testing.T) context.Context { return identity.WithIdentity(t.Context(), identity.Itself()) }
