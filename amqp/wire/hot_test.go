package wire

import (
	"testing"

	"github.com/quorate/quorate/message"
)

// The methods and headers that come once per message allocate nothing but the
// message.
func TestHotPathAllocatesNothing(t *testing.T) {
	var names Names
	publish := AppendMethod(nil, 1, &BasicPublish{Exchange: "orders", RoutingKey: "eu.new"})[frameHead:]
	publish = publish[:len(publish)-1]
	ack := AppendMethod(nil, 1, &BasicAck{DeliveryTag: 9})[frameHead:]
	ack = ack[:len(ack)-1]
	plain := message.Message{Properties: message.Properties{DeliveryMode: 2}, Body: make([]byte, 10_000)}
	header, _, _, err := ParseFrame(AppendContentHeader(nil, 1, &plain, nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	m := full()
	out := make([]byte, 0, 64<<10)
	for _, c := range []struct {
		name string
		most float64
		run  func() error
	}{
		{"publish", 0, func() error { var m BasicPublish; return ParsePublish(publish, &names, &m) }},
		{"ack", 0, func() error { var m BasicAck; return ParseAck(ack, &m) }},
		{"header", 1, func() error { var m message.Message; _, err := ParseContentHeader(header.Payload, &m); return err }},
		{"deliver", 0, func() error {
			d := BasicDeliver{ConsumerTag: "c", DeliveryTag: 7, Exchange: "x", RoutingKey: "k"}
			b := AppendDeliver(out[:0], 1, &d)
			b = AppendContentHeader(b, 1, &m, m.Headers)
			AppendBody(b, 1, plain.Body, MinFrameMax)
			a := BasicAck{DeliveryTag: 4}
			AppendAck(out[:0], 1, &a)
			return nil
		}},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := c.run(); err != nil {
				t.Fatal(err)
			}
		}); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	m := message.Message{Properties: message.Properties{DeliveryMode: 2, ContentType: "text/plain"}, Body: make([]byte, 1000)}
	in := AppendMethod(nil, 1, &BasicPublish{Exchange: "orders", RoutingKey: "eu.new"})
	in = AppendContentHeader(in, 1, &m, nil)
	in = AppendBody(in, 1, m.Body, 131072)
	var names Names
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		rest := in
		var p BasicPublish
		var m message.Message
		for len(rest) > 0 {
			f, n, _, err := ParseFrame(rest, 131072)
			switch rest = rest[n:]; f.Type {
			case FrameMethod:
				err = ParsePublish(f.Payload, &names, &p)
			case FrameHeader:
				_, err = ParseContentHeader(f.Payload, &m)
			case FrameBody, FrameHeartbeat:
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDeliver(b *testing.B) {
	m := message.Message{Properties: message.Properties{DeliveryMode: 2, ContentType: "text/plain"}, Body: make([]byte, 1000)}
	out := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		d := BasicDeliver{ConsumerTag: "consumer", DeliveryTag: 7, Exchange: "orders", RoutingKey: "eu.new"}
		out = AppendDeliver(out[:0], 1, &d)
		out = AppendContentHeader(out, 1, &m, nil)
		out = AppendBody(out, 1, m.Body, 131072)
	}
	b.SetBytes(int64(len(out)))
}
