package amqp_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// delivery reads a delivery and returns its tag and body.
func (p *peer) delivery(consumer string) (tag uint64, body string) {
	p.t.Helper()
	d := want[*wire.BasicDeliver](p)
	_, b := p.content()
	if d.ConsumerTag != consumer {
		p.t.Fatalf("delivered to %q, want %q", d.ConsumerTag, consumer)
	}
	return d.DeliveryTag, string(b)
}

// subscribe sets the prefetch of channel 1, then starts a consumer with acknowledgements on it.
func (p *peer) subscribe(queue, tag string, prefetch uint16) {
	p.t.Helper()
	p.send(1, &wire.BasicQos{PrefetchCount: prefetch})
	want[*wire.BasicQosOK](p)
	p.send(1, &wire.BasicConsume{Queue: queue, ConsumerTag: tag})
	want[*wire.BasicConsumeOK](p)
}

// getBody gets a message without acknowledgement and returns its body; "" if there is none.
func (p *peer) getBody(queue string) string {
	p.t.Helper()
	p.send(1, &wire.BasicGet{Queue: queue, NoAck: true})
	m := p.method()
	if _, ok := m.(*wire.BasicGetOK); !ok {
		return ""
	}
	_, b := p.content()
	return string(b)
}

// The consumers of a channel that ends return what they hold in the order of their oldest deliveries (AM-13).
func TestOldestReturnsFirst(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const consumers = 6
	_, address := serve(t, testcluster.Start(t, 1), amqp.Config{})
	p := connect(t, address)
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{{Name: "x-queue-type", Value: message.String("quorum")}}})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	for i := range consumers {
		p.publish("", "q", false, message.Message{Body: fmt.Append(nil, i)})
		want[*wire.BasicAck](p)
	}
	for i := range consumers {
		tag := fmt.Sprint("holds ", i)
		p.subscribe("q", tag, 1)
		if _, body := p.delivery(tag); body != fmt.Sprint(i) {
			t.Fatalf("delivered %q, want %d", body, i)
		}
	}
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	for i := range consumers {
		if body := p.getBody("q"); body != fmt.Sprint(i) {
			t.Errorf("%q is ready, want %d", body, i)
		}
	}
}

// A client that consumes again under a tag that it has cancelled continues as the same consumer.
// What the consumer still holds counts towards its prefetch, old and new, and makes room when it is
// settled (CO-3).
func TestSameTagAgain(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	_, address := serve(t, c, amqp.Config{})
	for _, kind := range []string{"quorum", "classic"} {
		t.Run(kind, func(t *testing.T) {
			p := connect(t, address)
			p.send(1, &wire.QueueDeclare{Queue: kind, Durable: true, Arguments: message.Table{{Name: "x-queue-type", Value: message.String(kind)}}})
			want[*wire.QueueDeclareOK](p)
			p.send(1, &wire.ConfirmSelect{})
			want[*wire.ConfirmSelectOK](p)
			for i := range 12 {
				p.publish("", kind, false, message.Message{Body: fmt.Append(nil, i)})
				want[*wire.BasicAck](p)
			}
			p.subscribe(kind, "t", 2)
			first, _ := p.delivery("t")
			second, _ := p.delivery("t")
			cancel := func() {
				p.send(1, &wire.BasicCancel{ConsumerTag: "t"})
				want[*wire.BasicCancelOK](p)
			}
			cancel()
			p.subscribe(kind, "t", 2)
			if body := p.getBody(kind); body != "2" { // else the consumer has it
				t.Fatalf("holding two of two, the consumer is given more: %q is the next one ready, want 2", body)
			}
			p.send(1, &wire.BasicAck{DeliveryTag: first})
			third, body := p.delivery("t")
			if body != "3" {
				t.Fatalf("delivered %q, want 3", body)
			}
			// A larger prefetch has room for more than the messages that are held.
			cancel()
			p.subscribe(kind, "t", 3)
			if _, body := p.delivery("t"); body != "4" {
				t.Fatalf("delivered %q, want 4", body)
			}
			if body := p.getBody(kind); body != "5" {
				t.Fatalf("%q is the next one ready, want 5", body)
			}
			p.send(1, &wire.BasicAck{DeliveryTag: second})
			if _, body := p.delivery("t"); body != "6" {
				t.Fatalf("delivered %q, want 6", body)
			}
			// Another tag is another consumer.
			cancel()
			p.subscribe(kind, "u", 1)
			if _, body := p.delivery("u"); body != "7" {
				t.Fatalf("delivered %q, want 7", body)
			}
			// The held messages return in their order when the channel ends.
			_ = third
			p.send(1, &wire.ChannelClose{ReplyCode: 200})
			want[*wire.ChannelCloseOK](p)
			p.send(1, &wire.ChannelOpen{})
			want[*wire.ChannelOpenOK](p)
			for _, want := range []string{"3", "4", "6", "7", "8"} {
				if body := p.getBody(kind); body != want {
					t.Fatalf("%q is ready, want %q", body, want)
				}
			}
		})
	}
}
