package amqp_test

import (
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// BenchmarkPublish measures a publish up to its storage: no queue is bound with the routing key.
func BenchmarkPublish(b *testing.B) {
	const each = 100 // messages of one write
	c := testcluster.Start(b, 1)
	p := connect(b, c.AMQP(0))
	m := message.Message{Body: make([]byte, 100)}
	one := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "nowhere"})
	one = wire.AppendBody(wire.AppendContentHeader(one, 1, &m, nil), 1, m.Body, 8192)
	var many []byte
	for range each {
		many = append(many, one...)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := b.N; n > 0; n -= each {
		p.write(many[:min(n, each)*len(one)])
	}
	p.send(1, &wire.BasicQos{}) // is answered after them
	want[*wire.BasicQosOK](p)
}
