package amqp_test

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// orderedPublishes is how many messages a channel publishes right before another method. It is no more than the first
// credit of a consumer.
const orderedPublishes = 10

// consume starts a consumer on channel 1. It acknowledges: without that, messages that are on their way when the queue
// gets another leader are lost (DEL-4), and this node may be too busy for its leaders to stay.
func (p *peer) consume(queue, tag string, priority int32) {
	p.t.Helper()
	p.send(1, &wire.BasicConsume{Queue: queue, ConsumerTag: tag, Arguments: message.Table{{Name: "x-priority", Value: message.Int32(priority)}}})
	want[*wire.BasicConsumeOK](p)
}

// ackAll acknowledges all that channel 1 has got.
func (p *peer) ackAll() {
	p.t.Helper()
	p.send(1, &wire.BasicAck{Multiple: true})
}

// delivered reads frames up to the next method but basic.deliver, and counts deliveries by consumer.
func (p *peer) delivered() (byTag map[string]int, next wire.Method) {
	p.t.Helper()
	byTag = map[string]int{}
	for {
		m := p.method()
		d, ok := m.(*wire.BasicDeliver)
		if !ok {
			return byTag, m
		}
		p.content()
		byTag[d.ConsumerTag]++
	}
}

// What a channel publishes before it cancels a consumer, starts one or ends is in the queue before that is done, and
// cancel-ok comes after the last delivery (AM-13).
func TestChannelKeepsOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	_, address := serve(t, c, amqp.Config{})
	t.Run("cancel", func(t *testing.T) {
		p := connect(t, address)
		p.send(1, &wire.QueueDeclare{Queue: "cancel", Durable: true})
		want[*wire.QueueDeclareOK](p)
		p.consume("cancel", "low", 0)
		for range 20 {
			p.consume("cancel", "high", 1)
			for range orderedPublishes {
				p.publish("", "cancel", false, message.Message{Body: []byte("x")})
			}
			p.send(1, &wire.BasicCancel{ConsumerTag: "high"})
			got, m := p.delivered()
			if _, ok := m.(*wire.BasicCancelOK); !ok || got["high"] != orderedPublishes {
				t.Fatalf("%v before %s, want %d for high before cancel-ok", got, m.ID(), orderedPublishes)
			}
			p.ackAll()
		}
	})
	t.Run("consume", func(t *testing.T) {
		p := connect(t, address)
		p.send(1, &wire.QueueDeclare{Queue: "consume", Durable: true})
		want[*wire.QueueDeclareOK](p)
		p.consume("consume", "low", 0)
		for range 20 {
			for range orderedPublishes {
				p.publish("", "consume", false, message.Message{Body: []byte("x")})
			}
			p.send(1, &wire.BasicConsume{Queue: "consume", ConsumerTag: "high", Arguments: message.Table{{Name: "x-priority", Value: message.Int32(1)}}})
			p.send(1, &wire.BasicCancel{ConsumerTag: "high"})
			total := 0
			for total < orderedPublishes {
				got, m := p.delivered()
				if got["high"] != 0 {
					t.Fatalf("%v before %s, want all for low", got, m.ID())
				}
				if total += got["low"]; m.ID() == wire.BasicCancelOKID {
					break
				}
			}
		}
	})
	for _, end := range []struct {
		name  string
		close func(p *peer)
	}{
		{"channel close", func(p *peer) {
			p.send(1, &wire.ChannelClose{ReplyCode: 200})
			want[*wire.ChannelCloseOK](p)
		}},
		{"connection close", func(p *peer) {
			p.send(0, &wire.ConnectionClose{ReplyCode: 200})
			want[*wire.ConnectionCloseOK](p)
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			look := connect(t, c.AMQP(1))
			look.send(1, &wire.QueueDeclare{Queue: end.name, Durable: true})
			want[*wire.QueueDeclareOK](look)
			for range 20 {
				p := connect(t, address)
				for range orderedPublishes {
					p.publish("", end.name, false, message.Message{Body: []byte("x")})
				}
				end.close(p)
				look.send(1, &wire.QueuePurge{Queue: end.name})
				if n := want[*wire.QueuePurgeOK](look).MessageCount; n != orderedPublishes {
					t.Fatalf("%d messages after the close, want %d", n, orderedPublishes)
				}
			}
		})
	}
}

// A consumer without a tag gets one in RabbitMQ's form (AM-14).
func TestMadeUpTag(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.BasicConsume{Queue: "q"})
	if tag := want[*wire.BasicConsumeOK](p).ConsumerTag; !strings.HasPrefix(tag, "amq.ctag-") || len(tag) != 31 {
		t.Errorf("%q has %d characters, want amq.ctag- and 31 in all", tag, len(tag))
	}
}
