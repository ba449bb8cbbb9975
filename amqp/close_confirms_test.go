package amqp_test

import (
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// The confirms of what was published before a close of the channel, or of the connection, come before close-ok.
func TestConfirmsBeforeClose(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const rounds, messages = 30, 20
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	publish := func(p *peer) {
		p.send(1, &wire.ConfirmSelect{})
		want[*wire.ConfirmSelectOK](p)
		for range messages {
			p.publish("", "q", false, message.Message{Body: []byte("x")})
		}
	}
	// confirmed reads confirms until another method comes.
	confirmed := func(p *peer) (last uint64, next wire.Method) {
		for {
			next = p.method()
			a, is := next.(*wire.BasicAck)
			if !is {
				return last, next
			}
			last = max(last, a.DeliveryTag)
		}
	}
	for i := range rounds {
		publish(p)
		p.send(1, &wire.ChannelClose{ReplyCode: 200})
		if last, next := confirmed(p); last != messages || next.ID() != wire.ChannelCloseOKID {
			t.Fatalf("round %d: publishes up to %d of %d are confirmed before %s", i, last, messages, next.ID())
		}
		p.open(1)
	}
	for i := range rounds {
		p := connect(t, c.AMQP(0))
		publish(p)
		p.send(0, &wire.ConnectionClose{ReplyCode: 200})
		if last, next := confirmed(p); last != messages || next.ID() != wire.ConnectionCloseOKID {
			t.Fatalf("round %d: publishes up to %d of %d are confirmed before %s", i, last, messages, next.ID())
		}
	}
}
