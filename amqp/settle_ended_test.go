package amqp_test

import (
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// holding starts a cluster of three. Its client on node 0 has one unacked delivery of the queue "q" with two members,
// one of them there; the other one is returned.
func holding(t *testing.T) (c *testcluster.Cluster, p *peer, tag uint64, other int) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c = testcluster.Start(t, 3)
	p = connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{
		{Name: "x-queue-type", Value: message.String("quorum")}, {Name: "x-quorum-initial-group-size", Value: message.Int64(2)},
	}})
	want[*wire.QueueDeclareOK](p)
	p.publish("", "q", false, message.Message{Body: []byte("m")})
	p.subscribe("q", "c", 0)
	tag, _ = p.delivery("c")
	r, _ := c.Cluster(0).View().Queue("/", "q")
	for _, n := range r.Members {
		if i := c.Index(string(n)); i != 0 {
			other = i
		}
	}
	if len(r.Members) != 2 || other == 0 {
		t.Fatalf("the members are %v", r.Members)
	}
	return c, p, tag, other
}

// G4: a synchronous method is not answered if what its channel has acked before was not stored when the server ended the
// consumer.
func TestAckIsLostWithItsConsumer(t *testing.T) {
	t.Parallel()
	c, p, tag, other := holding(t)
	c.Kill(other) // no majority stores the ack
	p.send(1, &wire.BasicAck{DeliveryTag: tag})
	p.send(1, &wire.BasicQos{}) // the ack is read
	want[*wire.BasicQosOK](p)
	r, _ := c.Cluster(0).View().Queue("/", "q")
	node, epoch := c.Cluster(0).Self()
	for session := uint64(1); session < 100; session++ {
		c.Cluster(0).Gateway().Notice(r.UID, quorumq.Notice{Kind: quorumq.NoticeCancelled, Consumer: quorumq.ConsumerKey{
			SessionKey: quorumq.SessionKey{Node: node, Epoch: epoch, Session: session}, Tag: traffic.ConsumerTag,
		}})
	}
	want[*wire.BasicCancel](p)
	p.send(1, &wire.QueueDeclare{Queue: "q", Passive: true})
	p.channelClosed(wire.PreconditionFailed, wire.QueueDeclareID)
}

// An ack of a delivery whose queue was deleted is no fault, before and after the client knows (CN-1).
func TestAckAfterItsQueue(t *testing.T) {
	t.Parallel()
	c, p, tag, _ := holding(t)
	admin := connect(t, c.AMQP(1))
	admin.send(1, &wire.QueueDelete{Queue: "q"})
	want[*wire.QueueDeleteOK](admin)
	want[*wire.BasicCancel](p)
	p.send(1, &wire.BasicAck{DeliveryTag: tag})
	for range 2 {
		p.send(1, &wire.QueueDeclare{Queue: "other", Durable: true})
		want[*wire.QueueDeclareOK](p)
	}
}
