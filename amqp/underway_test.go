package amqp_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/incoming"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// frameMax is the size of frames that the tests' clients agree on.
const frameMax = 8192

// openChannels opens channels 2 to n.
func (p *peer) openChannels(n uint16) {
	p.t.Helper()
	for ch := uint16(2); ch <= n; ch++ {
		p.send(ch, &wire.ChannelOpen{})
		want[*wire.ChannelOpenOK](p)
	}
}

// frames returns the frames of a publish to queue q, one by one.
func frames(channel uint16, m message.Message) (all [][]byte) {
	all = append(all,
		wire.AppendMethod(nil, channel, &wire.BasicPublish{RoutingKey: "q"}),
		wire.AppendContentHeader(nil, channel, &m, m.Headers))
	for body := m.Body; len(body) > 0; {
		n := min(len(body), frameMax-wire.FrameOverhead)
		all = append(all, wire.AppendBody(nil, channel, body[:n], 0))
		body = body[n:]
	}
	return all
}

// Bodies that never end cost a node what a connection may have, and then the connection is closed.
// With the defaults, 60 channels of 15 MB each are enough for that.
func TestBodiesThatNeverEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const channels, size = 60, 15 << 20
	c := testcluster.Start(t, 1)
	in := amqp.NewIncoming(nil, amqp.IncomingLimits{})
	s, address := serve(t, c, amqp.Config{Incoming: in})
	before := memory()
	p := connect(t, address)
	p.openChannels(channels)
	body := bytes.Repeat([]byte("x"), size)
	gone := make(chan struct{})
	go func() { // all but the last byte of each, as long as it is read
		defer close(gone)
		for ch := uint16(1); ch <= channels; ch++ {
			all := frames(ch, message.Message{Body: body})
			last := all[len(all)-1]
			all[len(all)-1] = wire.AppendBody(nil, ch, last[7:len(last)-2], 0)
			for _, f := range all {
				if _, err := p.nc.Write(f); err != nil {
					return
				}
			}
		}
	}()
	text := want[*wire.ConnectionClose](p)
	if wire.ReplyCode(text.ReplyCode) != wire.ResourceError || !strings.Contains(text.ReplyText, "limits.incoming_connection_bytes") {
		t.Errorf("closed with %+v", text)
	}
	t.Logf("%s; %d bytes more in memory", text.ReplyText, memory()-before)
	_ = p.nc.Close()
	<-gone
	awaitConnections(t, s, 0)
	if x := in.Stats(); x.Bytes != 0 || x.Refused != 1 {
		t.Errorf("%+v", x)
	}
}

// The body that a header announces costs nothing until it comes.
func TestAnnouncedBodies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const channels, announced = 100, 16 << 20
	c := testcluster.Start(t, 1)
	in := amqp.NewIncoming(nil, amqp.IncomingLimits{})
	_, address := serve(t, c, amqp.Config{Incoming: in})
	p := connect(t, address)
	p.openChannels(channels - 1)
	m := message.Message{Body: make([]byte, announced)}
	m.Headers = message.Table{{Name: "h", Value: message.String(strings.Repeat("x", 4096))}}
	for ch := uint16(1); ch < channels; ch++ {
		p.write(bytes.Join(frames(ch, m)[:2], nil))
		p.write(wire.AppendBody(nil, ch, make([]byte, 1000), 0))
	}
	p.send(channels, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p) // everything before it was read
	x := in.Stats()
	t.Logf("%d bytes", x.Bytes)
	if x.Bytes < channels*1000 {
		t.Errorf("%d bytes are less than what has come", x.Bytes)
	}
	if x.Bytes > channels*(4096+2*frameMax) {
		t.Errorf("%d bytes for %d messages of which little has come", x.Bytes, channels)
	}
}

// Connections that hold a part of the node's room each, and together need more than there is,
// finish one after the other: all messages arrive.
func TestIncomingTakesTurns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const conns, channels, size, node = 8, 3, 1 << 20, 2 << 20
	c := testcluster.StartWith(t, 1, broker.Config{MaxBodyBytes: size})
	in := amqp.NewIncoming(incoming.New(node), amqp.IncomingLimits{ConnectionBytes: channels*size + amqp.IncomingSlack})
	s, address := serve(t, c, amqp.Config{Incoming: in})
	p := connect(t, address)
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	body := bytes.Repeat([]byte("x"), size)
	var all sync.WaitGroup
	for i := range conns {
		p := connect(t, address)
		p.openChannels(channels)
		parts := make([][][]byte, channels)
		for i := range parts {
			ch := uint16(i + 1) // few
			p.send(ch, &wire.ConfirmSelect{})
			want[*wire.ConfirmSelectOK](p)
			parts[i] = frames(ch, message.Message{Body: body})
		}
		all.Go(func() {
			for n := range parts[0] { // a frame of each in turn
				for i == 0 && n == len(parts[0])-1 && in.Stats().Waits == 0 && t.Context().Err() == nil {
					runtime.Gosched() // until others wait for what the first one holds
				}
				for i := range parts {
					if _, err := p.nc.Write(parts[i][n]); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		all.Go(func() {
			for range channels {
				f, ok := p.frame()
				if !ok {
					t.Error("the connection ended")
					return
				}
				if m, err := wire.ParseMethod(f.Payload, nil); err != nil || m.ID() != wire.BasicAckID {
					t.Errorf("%+v, %v, want a confirm", m, err)
					return
				}
			}
		})
	}
	all.Wait()
	x := in.Stats()
	t.Logf("%+v", x)
	if x.Bytes != 0 || x.Waits == 0 || x.Refused != 0 || x.Late != 0 {
		t.Errorf("%+v", x)
	}
	if f := s.Stats().Failed; f != 0 {
		t.Errorf("%d connections failed", f)
	}
}

// A message that does not end in time costs its channel, and those who wait get what it held. Other
// channels continue.
func TestMessageThatTakesTooLong(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const size = 1 << 20
	c := testcluster.StartWith(t, 1, broker.Config{MaxBodyBytes: size})
	for name, heartbeat := range map[string]uint16{"heartbeats": 60, "no heartbeats": 0} {
		t.Run(name, func(t *testing.T) {
			// The message that is whole has to come in this time, too, on a machine that is busy with other tests.
			in := amqp.NewIncoming(incoming.New(size/2), amqp.IncomingLimits{ConnectionBytes: 2 * size, Timeout: 2 * time.Second})
			_, address := serve(t, c, amqp.Config{Incoming: in})
			p := dial(t, address)
			p.loginAs("guest", "guest")
			want[*wire.ConnectionTune](p)
			p.send(0, &wire.ConnectionTuneOK{ChannelMax: 100, FrameMax: frameMax, Heartbeat: heartbeat})
			p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
			want[*wire.ConnectionOpenOK](p)
			p.send(1, &wire.ChannelOpen{})
			want[*wire.ChannelOpenOK](p)
			p.openChannels(2)
			body := bytes.Repeat([]byte("x"), size)
			all := frames(1, message.Message{Body: body})
			p.write(bytes.Join(all[:len(all)-1], nil))
			other := connect(t, address) // it waits for the room that the first one holds
			work := make(chan error, 1)
			go func() {
				_, err := other.nc.Write(bytes.Join(frames(1, message.Message{Body: body}), nil))
				work <- err
			}()
			text := p.channelClosed(wire.ResourceError, wire.BasicPublishID)
			if !strings.Contains(text, "timeouts.incoming") {
				t.Error(text)
			}
			p.send(2, &wire.QueueDeclare{Queue: "q", Durable: true})
			want[*wire.QueueDeclareOK](p)
			if err := <-work; err != nil {
				t.Error(err)
			}
			testcluster.Poll(t, "all room is given back", func() error {
				if x := in.Stats(); x.Bytes != 0 || x.Late != 1 {
					return fmt.Errorf("%+v", x)
				}
				return nil
			})
		})
	}
}

// A connection that is held back keeps the room of its messages only as long as nobody else needs
// it. Then their time runs, though nothing is read from the connection.
func TestHeldBackMessageGivesWay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const size = 1 << 20
	c := testcluster.StartWith(t, 1, broker.Config{MaxBodyBytes: size})
	in := amqp.NewIncoming(incoming.New(size/2), amqp.IncomingLimits{ConnectionBytes: 2 * size, Timeout: time.Hour})
	s, address := serve(t, c, amqp.Config{Incoming: in})
	body := bytes.Repeat([]byte("x"), size)
	other := connect(t, address)
	other.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](other)
	p := connect(t, address)
	p.openChannels(2)
	all := frames(1, message.Message{Body: body})
	p.write(bytes.Join(all[:len(all)-1], nil))
	rest := frames(1, message.Message{Body: body})
	other.write(bytes.Join(rest[:2], nil)) // this message began before the alarm
	other.send(0, &wire.ConnectionUpdateSecret{})
	want[*wire.ConnectionUpdateSecretOK](other)
	p.send(0, &wire.ConnectionUpdateSecret{})
	want[*wire.ConnectionUpdateSecretOK](p)
	c.Broker(0).Alarms.Raise("for the test")
	in.Limit(amqp.IncomingLimits{ConnectionBytes: 2 * size, Timeout: 100 * time.Millisecond})
	p.write(wire.AppendMethod(nil, 2, &wire.BasicPublish{RoutingKey: "q"}))
	want[*wire.ConnectionBlocked](p)
	testcluster.Poll(t, "it is held back", func() error {
		if x := s.Stats(); x.Blocked != 1 {
			return errorOf(x)
		}
		return nil
	})
	if x := in.Stats(); x.Late != 0 || x.Waits != 0 {
		t.Errorf("nobody needs its room, and it is %+v", x)
	}
	written := make(chan error, 1)
	go func() {
		_, err := other.nc.Write(bytes.Join(rest[2:], nil))
		written <- err
	}()
	if text := p.channelClosed(wire.ResourceError, wire.BasicPublishID); !strings.Contains(text, "timeouts.incoming") {
		t.Error(text)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	testcluster.Poll(t, "the other message is whole", func() error {
		if x := in.Stats(); x.Bytes != 0 || x.Late == 0 {
			return fmt.Errorf("%+v", x)
		}
		return nil
	})
	c.Broker(0).Alarms.End()
}
