package amqp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// awaitHeld waits until the given number of publishes wait for quotas.
func awaitHeld(t testing.TB, c *testcluster.Cluster, want int64) {
	t.Helper()
	testcluster.Poll(t, fmt.Sprint(want, " publishes wait"), func() error {
		if _, n := c.Broker(0).Limits.Counts(); n != want {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
}

// holds sends publishes on channel 1 that a rate holds back for good.
func (p *peer) holds(c *testcluster.Cluster, publishes int) {
	p.t.Helper()
	p.send(1, &wire.QueueDeclare{Queue: "never", Durable: true, Arguments: message.Table{
		{Name: "x-queue-type", Value: message.String("quorum")}, {Name: "x-max-message-rate", Value: message.Int64(0)},
	}})
	want[*wire.QueueDeclareOK](p)
	for range publishes {
		p.publish("", "never", false, message.Message{Body: []byte("x")})
	}
	awaitHeld(p.t, c, 1)
}

// VH-14, AM-16: publishes that a rate holds back for good do not keep a connection whose client sends no heartbeats.
func TestHeldAtEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	s, address := serve(t, c, amqp.Config{})
	for _, x := range []struct {
		name string
		end  func(*peer)
	}{
		{"the client is gone", func(p *peer) { _ = p.nc.Close() }},
		{"it closes", func(p *peer) {
			p.send(0, &wire.ConnectionClose{ReplyCode: 200})
			want[*wire.ConnectionCloseOK](p)
			_ = p.nc.Close()
		}},
		{"a fault of another channel", func(p *peer) {
			p.send(2, &wire.BasicPublish{Immediate: true})
			p.closed(wire.NotImplemented, wire.BasicPublishID)
		}},
		{"it is gone behind a method", func(p *peer) {
			p.send(2, &wire.QueueDeclare{Queue: "last", Durable: true})
			_ = p.nc.Close()
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := connect(t, address)
			p.open(2)
			p.holds(c, 3)
			x.end(p)
			awaitHeld(t, c, 0)
			testcluster.Poll(t, "the connection ends", func() error {
				if n := s.Stats().Connections; n > 0 {
					return fmt.Errorf("%d are left", n)
				}
				return nil
			})
		})
	}
}

// VH-16: connection.blocked comes also while a rate holds the publisher back.
func TestBlockedAboveARate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	b, ctx := c.Broker(0), all(t)
	full := catalog.NoVHostLimits()
	full.SetLimit(limits.StoredBytes, 10)
	testcluster.Poll(t, "quotas can be set", func() error { return b.Administration.SetVHostLimits(ctx, "/", full) })
	p := connect(t, address)
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	p.publish("", "q", false, message.Message{Body: make([]byte, 100)})
	want[*wire.BasicAck](p) // the rate must not hold this one back
	none := catalog.NoUserLimits()
	none.SetLimit(limits.MessageRate, 0)
	if err := b.Administration.SetUserLimits(ctx, "guest", none); err != nil {
		t.Fatal(err)
	}
	p.publish("", "q", false, message.Message{Body: make([]byte, 100)})
	if blocked := want[*wire.ConnectionBlocked](p); !strings.Contains(blocked.Reason, "max-stored-bytes") {
		t.Errorf("%q", blocked.Reason)
	}
	_ = p.nc.Close()
}
