package amqp_test

import (
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// counting returns the names of those headers that quorum queues add to repeated deliveries
// (DEL-10).
func counting(m message.Message) (all []string) {
	for _, name := range []string{"x-acquired-count", "x-delivery-count"} {
		if _, has := m.Headers.Get(name); has {
			all = append(all, name)
		}
	}
	return all
}

// Classic queues put messages back where they were, without counts, and drop no message however
// often it is returned (DEL-1, DEL-9, DEL-10).
func TestClassicReturns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	for _, q := range []wire.QueueDeclare{
		{Queue: "exclusive", Exclusive: true},
		{Queue: "transient"},
		{Queue: "auto-delete", Durable: true, AutoDelete: true},
		{Queue: "classic", Durable: true, Arguments: message.Table{{Name: "x-queue-type", Value: message.String("classic")}}},
	} {
		t.Run(q.Queue, func(t *testing.T) {
			p := connect(t, c.AMQP(0))
			p.send(1, &q)
			want[*wire.QueueDeclareOK](p)
			for _, body := range []string{"0", "1", "2", "3"} {
				p.publish("", q.Queue, false, message.Message{Body: []byte(body)})
			}
			p.send(1, &wire.BasicQos{PrefetchCount: 3})
			want[*wire.BasicQosOK](p)
			p.send(1, &wire.BasicConsume{Queue: q.Queue, ConsumerTag: "c"})
			want[*wire.BasicConsumeOK](p)
			const rounds = 25 // above the limit of quorum queues, where a reject counts
			for round := range uint64(rounds) {
				for i := range uint64(3) {
					d := want[*wire.BasicDeliver](p)
					m, body := p.content()
					if string(body) != string(rune('0'+i)) || d.DeliveryTag != round*3+i+1 || d.Redelivered != (round > 0) {
						t.Fatalf("round %d: %q came as %+v, want %d", round, body, d, i)
					}
					if has := counting(m); has != nil {
						t.Fatalf("round %d: it has %v", round, has)
					}
				}
				p.send(1, &wire.BasicNack{DeliveryTag: round*3 + 3, Multiple: true, Requeue: true})
			}
			for range 3 {
				want[*wire.BasicDeliver](p)
				p.content()
			}
			tag := uint64(rounds*3 + 1)
			for range rounds { // 1 and 2 are held
				p.send(1, &wire.BasicReject{DeliveryTag: tag, Requeue: true})
				tag = want[*wire.BasicDeliver](p).DeliveryTag
				if m, body := p.content(); string(body) != "0" || counting(m) != nil {
					t.Fatalf("%q with %v came before what is older", body, counting(m))
				}
			}
			if q.AutoDelete {
				return // it ends with its consumer
			}
			p.send(1, &wire.BasicCancel{ConsumerTag: "c", NoWait: true})
			p.send(1, &wire.BasicRecover{Requeue: true})
			want[*wire.BasicRecoverOK](p)
			p.send(1, &wire.BasicGet{Queue: q.Queue, NoAck: true})
			want[*wire.BasicGetOK](p)
			if m, body := p.content(); string(body) != "0" || counting(m) != nil {
				t.Errorf("%q with %v", body, counting(m))
			}
		})
	}
}

// A queue without a dead-letter exchange drops a message that failed too often, and the node logs
// that (DEL-9).
func TestDropsAreLogged(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	limit := message.Table{{Name: "x-delivery-limit", Value: message.Int64(1)}}
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: limit})
	want[*wire.QueueDeclareOK](p)
	p.publish("", "q", false, message.Message{Body: []byte("1")})
	p.send(1, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"})
	want[*wire.BasicConsumeOK](p)
	for i := range uint64(2) {
		want[*wire.BasicDeliver](p)
		if m, _ := p.content(); (counting(m) == nil) != (i == 0) {
			t.Errorf("delivery %d has %v", i, counting(m))
		}
		if n := c.Cluster(0).EventCounts()[event.MessagesDropped]; n != 0 {
			t.Errorf("after %d returns a drop is told", i)
		}
		p.send(1, &wire.BasicReject{DeliveryTag: i + 1, Requeue: true})
	}
	testcluster.Poll(t, "the drop is told", func() error {
		if n := c.Cluster(0).EventCounts()[event.MessagesDropped]; n != 1 {
			return errorOf(n)
		}
		return nil
	})
}
