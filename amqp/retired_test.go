package amqp_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// retiredRounds is how many consumers a channel of TestCancelledConsumersEnd cancels.
const retiredRounds = 5

// holding has channel 1 consume a message of the queue with each of several consumers, and cancel them. It returns the
// delivery tags.
func (p *peer) holding(queue string, arguments message.Table) (tags []uint64) {
	p.t.Helper()
	p.send(1, &wire.QueueDeclare{Queue: queue, Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.BasicQos{PrefetchCount: 1})
	want[*wire.BasicQosOK](p)
	other := connect(p.t, p.nc.RemoteAddr().String())
	other.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](other)
	for i := range retiredRounds {
		other.publish("", queue, false, message.Message{Body: fmt.Append(nil, i)})
		want[*wire.BasicAck](other)
	}
	_ = other.nc.Close()
	for i := range retiredRounds {
		name := fmt.Sprint(queue, " ", i)
		p.send(1, &wire.BasicConsume{Queue: queue, ConsumerTag: name, Arguments: arguments})
		want[*wire.BasicConsumeOK](p)
		tag, _ := p.delivery(name)
		tags = append(tags, tag)
		p.send(1, &wire.BasicCancel{ConsumerTag: name})
		want[*wire.BasicCancelOK](p)
	}
	return tags
}

// ready returns how many messages of a queue are ready.
func (p *peer) ready(queue string) uint32 {
	p.t.Helper()
	p.send(1, &wire.QueueDeclare{Queue: queue, Passive: true})
	return want[*wire.QueueDeclareOK](p).MessageCount
}

// A cancelled consumer ends when its last unsettled delivery is settled or returned, however long its channel lives
// (CO-3). What the client asks next sees its decisions.
func TestCancelledConsumersEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	scenes := []struct {
		name      string
		arguments message.Table
		settle    func(p *peer, queue string, tags []uint64)
		left      uint32 // ready messages
	}{
		{name: "acked", settle: func(p *peer, _ string, tags []uint64) {
			for _, tag := range tags {
				p.send(1, &wire.BasicAck{DeliveryTag: tag})
			}
		}},
		{name: "acked together", settle: func(p *peer, _ string, tags []uint64) {
			p.send(1, &wire.BasicAck{DeliveryTag: tags[len(tags)-1], Multiple: true})
		}},
		{name: "returned", left: retiredRounds, settle: func(p *peer, _ string, tags []uint64) {
			for _, tag := range tags {
				p.send(1, &wire.BasicNack{DeliveryTag: tag, Requeue: true})
			}
		}},
		{name: "recovered", left: retiredRounds, settle: func(p *peer, _ string, _ []uint64) {
			p.send(1, &wire.BasicRecover{Requeue: true})
			want[*wire.BasicRecoverOK](p)
		}},
		{name: "timed out", left: retiredRounds, arguments: message.Table{{Name: "x-consumer-timeout", Value: message.Int32(2000)}}, settle: func(p *peer, queue string, _ []uint64) {
			testcluster.Poll(p.t, "the deliveries are back", func() error {
				if n := p.ready(queue); n != retiredRounds {
					return errorOf(n)
				}
				return nil
			})
		}},
		{name: "of a queue that is deleted", settle: func(p *peer, queue string, _ []uint64) {
			p.send(1, &wire.QueueDelete{Queue: queue})
			want[*wire.QueueDeleteOK](p)
			p.send(1, &wire.QueueDeclare{Queue: queue, Durable: true})
			want[*wire.QueueDeclareOK](p)
		}},
	}
	for _, x := range scenes {
		t.Run(x.name, func(t *testing.T) {
			s, address := serve(t, c, amqp.Config{})
			p := connect(t, address)
			tags := p.holding(x.name, x.arguments)
			if n := s.Stats().Consumers; n != retiredRounds && x.arguments == nil {
				t.Errorf("%d consumers hold messages, want %d", n, retiredRounds)
			}
			x.settle(p, x.name, tags)
			if n := p.ready(x.name); n != x.left {
				t.Errorf("%d messages are ready, want %d", n, x.left)
			}
			testcluster.Poll(t, "no consumer is left", func() error {
				p.send(1, &wire.BasicCancel{ConsumerTag: "none"}) // the channel looks at what the server has ended
				want[*wire.BasicCancelOK](p)
				if n := s.Stats().Consumers; n != 0 {
					return errorOf(n)
				}
				return nil
			})
		})
	}
}

// A cancelled consumer whose deliveries a transaction settles ends with the commit, and not before: a rollback makes them
// unsettled again.
func TestCancelledConsumersOfTransactionEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	s, address := serve(t, testcluster.Start(t, 1), amqp.Config{})
	p := connect(t, address)
	p.send(1, &wire.TxSelect{})
	want[*wire.TxSelectOK](p)
	tags := p.holding("q", nil)
	left := func(want int64) {
		t.Helper()
		if n := s.Stats().Consumers; n != want {
			t.Errorf("%d consumers, want %d", n, want)
		}
	}
	p.send(1, &wire.BasicAck{DeliveryTag: tags[len(tags)-1], Multiple: true})
	p.send(1, &wire.TxRollback{})
	want[*wire.TxRollbackOK](p)
	left(retiredRounds)
	p.send(1, &wire.BasicAck{DeliveryTag: tags[0]})
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	left(retiredRounds - 1)
	p.send(1, &wire.BasicAck{DeliveryTag: tags[len(tags)-1], Multiple: true})
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	left(0)
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	if n := connect(t, address).ready("q"); n != 0 {
		t.Errorf("%d messages are back that a commit has acknowledged", n)
	}
}
