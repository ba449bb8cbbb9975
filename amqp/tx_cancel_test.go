package amqp_test

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// A delivery that a transaction settles stays settled if its consumer is cancelled before the commit. A rollback
// instead makes it unsettled again.
func TestCancelBeforeCommit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	transactional(p, "in", "out")
	other.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](other)
	other.publish("", "in", false, message.Message{Body: []byte("input")})
	want[*wire.BasicAck](other)
	p.subscribe("in", "c", 0)
	tag, _ := p.delivery("c")
	p.send(1, &wire.BasicAck{DeliveryTag: tag})
	p.send(1, &wire.BasicCancel{ConsumerTag: "c"})
	want[*wire.BasicCancelOK](p)
	p.send(1, &wire.TxRollback{})
	want[*wire.TxRollbackOK](p)
	p.send(1, &wire.BasicAck{DeliveryTag: tag})
	p.publish("", "out", false, message.Message{Body: []byte("output")})
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	if left := other.drain("in"); len(left) > 0 {
		t.Errorf("the commit acknowledged what is back: %q", left)
	}
	if have := other.drain("out"); !slices.Equal(have, []string{"output"}) {
		t.Errorf("%q", have)
	}
}

// ackedInTime starts a cluster, and has p's transaction ack a delivery of the queue "in" whose consumer times out later.
func ackedInTime(t *testing.T, timeoutMs int32) (p, other *peer) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other = connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	transactional(p, "in", "out")
	other.publish("", "in", false, message.Message{Body: []byte("input")})
	p.send(1, &wire.BasicConsume{Queue: "in", ConsumerTag: "slow", Arguments: message.Table{{Name: "x-consumer-timeout", Value: message.Int32(timeoutMs)}}})
	want[*wire.BasicConsumeOK](p)
	tag, _ := p.delivery("slow")
	p.send(1, &wire.BasicAck{DeliveryTag: tag})
	return p, other
}

// commitRefused has the transaction publish to "out" and commit, which fails and publishes nothing.
func (p *peer) commitRefused(other *peer) {
	p.t.Helper()
	p.publish("", "out", false, message.Message{Body: []byte("output")})
	p.send(1, &wire.TxCommit{})
	p.channelClosed(wire.PreconditionFailed, wire.TxCommitID)
	if have := other.drain("out"); len(have) > 0 {
		p.t.Errorf("a commit that failed published %q", have)
	}
}

// A commit fails whole if a delivery that it settles was taken back meanwhile, because its consumer has timed out.
func TestTimeoutBeforeCommit(t *testing.T) {
	t.Parallel()
	p, other := ackedInTime(t, 1500)
	want[*wire.BasicCancel](p)
	p.commitRefused(other)
	other.comesBack("in", "input")
}

// It does so as well if the consumer was cancelled before its delivery timed out: cancelled consumers have deliveries
// that time out, too.
func TestTimeoutOfCancelledBeforeCommit(t *testing.T) {
	t.Parallel()
	p, other := ackedInTime(t, 3000)
	p.send(1, &wire.BasicCancel{ConsumerTag: "slow"})
	want[*wire.BasicCancelOK](p)
	other.comesBack("in", "input")
	p.send(1, &wire.QueueDeclare{Queue: "in", Passive: true}) // the writer has looked at the consumer when it answers
	want[*wire.QueueDeclareOK](p)
	p.commitRefused(other)
}

// PUB-9, CT-2: a commit fails, too, if only the queue knows that the time of a delivery was over; what was published stays.
func TestUnnoticedTimeoutBeforeCommit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	transactional(p, "in", "out")
	other.publish("", "in", false, message.Message{Body: []byte("input")})
	p.subscribe("in", "c", 1)
	tag, _ := p.delivery("c")
	returnHeld(t, c, 0, "in", traffic.ConsumerTag)
	p.delivery("c") // it is redelivered
	p.send(1, &wire.BasicAck{DeliveryTag: tag})
	p.publish("", "out", false, message.Message{Body: []byte("output")})
	p.send(1, &wire.TxCommit{})
	p.channelClosed(wire.PreconditionFailed, wire.TxCommitID)
	if have := other.drain("out"); !slices.Equal(have, []string{"output"}) {
		t.Errorf("%q is published", have)
	}
	other.comesBack("in", "input")
}

// PUB-9, Q-18: a commit fails whole if the queue of a delivery that it settles is being deleted and dead-letters it.
func TestDrainDeleteBeforeCommit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "in", Durable: true, Arguments: message.Table{
		{Name: "x-dead-letter-exchange", Value: message.String("")},
		{Name: "x-dead-letter-routing-key", Value: message.String("dead")},
		{Name: "x-on-delete", Value: message.String("dead-letter")},
	}})
	want[*wire.QueueDeclareOK](p)
	transactional(p, "dead", "out")
	other.publish("", "in", false, message.Message{Body: []byte("input")})
	p.subscribe("in", "c", 0)
	tag, _ := p.delivery("c")
	p.send(1, &wire.BasicAck{DeliveryTag: tag})
	other.send(1, &wire.QueueDelete{Queue: "in"})
	want[*wire.QueueDeleteOK](other)
	want[*wire.BasicCancel](p)
	p.commitRefused(other)
	other.comesBack("dead", "input")
}
