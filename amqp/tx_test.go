package amqp_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// transactional declares queues and opens a transaction on channel 1.
func transactional(p *peer, queues ...string) {
	p.t.Helper()
	for _, q := range queues {
		p.send(1, &wire.QueueDeclare{Queue: q, Durable: true})
		want[*wire.QueueDeclareOK](p)
	}
	p.send(1, &wire.TxSelect{})
	want[*wire.TxSelectOK](p)
}

// drain gets all messages of a queue without acknowledgement, and returns the bodies.
func (p *peer) drain(queue string) (bodies []string) {
	p.t.Helper()
	for {
		p.send(1, &wire.BasicGet{Queue: queue, NoAck: true})
		switch m := p.method(); m.(type) {
		case *wire.BasicGetOK:
			_, body := p.content()
			bodies = append(bodies, string(body))
		case *wire.BasicGetEmpty:
			return bodies
		default:
			p.t.Fatalf("%s %+v", m.ID(), m)
		}
	}
}

// PUB-9: the leaders of two queues are killed one after the other while a client commits. Each
// commit that is answered is stored whole in both queues, in order and once, and the messages that
// it acknowledged are gone.
func TestTransactionsOverCrashes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	const commits, share = 60, 7
	p := connect(t, c.AMQP(0))
	p.patience = 4 * patience
	transactional(p, "in", "one", "two")
	for i := range commits {
		p.publish("", "in", false, message.Message{Body: []byte(strconv.Itoa(i))})
	}
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	// elsewhere waits until a node other than the client's leads a queue, and returns that node.
	elsewhere := func(q string) (leader int) {
		testcluster.Poll(t, "another node leads "+q, func() error {
			x, err := c.Broker(0).Queues.Get(all(t), "/", q)
			if err != nil {
				return err
			}
			if leader = c.Index(x.Leader); leader > 0 {
				return nil
			}
			return errors.Join(c.Broker(0).Operators.TransferLeadership(all(t), "/", q, c.Name(1)), errors.New("none does, or the client's node"))
		})
		return leader
	}
	kill := map[int]string{commits / 3: "one", 2 * commits / 3: "two"}
	killed := make(chan int)
	var stored []string
	for i := range commits {
		if q := kill[i]; q != "" {
			victim := elsewhere(q)
			go func() { // while commits go on
				c.Kill(victim)
				killed <- victim
			}()
		}
		p.send(1, &wire.BasicGet{Queue: "in"})
		got := want[*wire.BasicGetOK](p)
		p.content()
		for k := range share {
			body := fmt.Sprintf("%d.%d", i, k)
			stored = append(stored, body)
			for _, q := range []string{"one", "two"} {
				p.publish("", q, false, message.Message{Body: []byte(body)})
			}
		}
		p.send(1, &wire.BasicAck{DeliveryTag: got.DeliveryTag})
		p.send(1, &wire.TxCommit{})
		want[*wire.TxCommitOK](p)
		if kill[i-1] != "" { // the next one needs the others
			c.Restart(<-killed)
		}
	}
	for _, q := range []string{"one", "two"} {
		if have := p.drain(q); !slices.Equal(have, stored) {
			t.Errorf("queue %s has %d messages, want %d in their order: %v", q, len(have), len(stored), have)
		}
	}
	if left := p.drain("in"); len(left) > 0 {
		t.Errorf("acknowledged messages came back: %v", left)
	}
}

// PUB-9: a commit is answered only after its messages are stored.
func TestCommitWaitsForMajority(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	p := connect(t, c.AMQP(0))
	transactional(p, "q")
	c.Kill(1)
	c.Kill(2)
	p.publish("", "q", false, message.Message{Body: []byte("x")})
	p.send(1, &wire.TxCommit{})
	_ = p.nc.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	var b [1]byte
	n, err := p.nc.Read(b[:])
	if timeout, is := errors.AsType[net.Error](err); n > 0 || !is || !timeout.Timeout() {
		t.Fatalf("%d bytes, %v: a commit was answered that no majority has", n, err)
	}
	c.Restart(1)
	want[*wire.TxCommitOK](p)
	if have := p.drain("q"); !slices.Equal(have, []string{"x"}) {
		t.Errorf("%q", have)
	}
}

// PUB-9: if one queue has no room for its share, the commit fails. That queue stores nothing of it,
// nothing is acknowledged, and what another queue has stored stays.
func TestCommitRefused(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "small", Durable: true, Arguments: message.Table{
		{Name: "x-max-length", Value: message.Int64(2)}, {Name: "x-overflow", Value: message.String("reject-publish")},
	}})
	want[*wire.QueueDeclareOK](p)
	transactional(p, "in", "large")
	p.publish("", "in", false, message.Message{Body: []byte("input")})
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	p.send(1, &wire.BasicGet{Queue: "in"})
	got := want[*wire.BasicGetOK](p)
	p.content()
	p.send(1, &wire.BasicAck{DeliveryTag: got.DeliveryTag})
	for i := range 10 {
		for _, q := range []string{"small", "large"} {
			p.publish("", q, false, message.Message{Body: []byte(strconv.Itoa(i))})
		}
	}
	p.send(1, &wire.TxCommit{})
	p.channelClosed(wire.PreconditionFailed, wire.TxCommitID)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	if have := p.drain("large"); len(have) != 10 {
		t.Errorf("the queue that refused nothing has %q", have)
	}
	if have := p.drain("small"); len(have) > 0 {
		t.Errorf("the queue that refused has %q", have)
	}
	p.comesBack("in", "input")
}

// PUB-9: a commit with one faulty message stores no message.
func TestCommitAtFault(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	transactional(p, "q")
	p.publish("", "q", false, message.Message{Body: []byte("good")})
	p.publish("missing", "q", false, message.Message{Body: []byte("at fault")})
	p.send(1, &wire.TxCommit{})
	p.channelClosed(wire.NotFound, wire.BasicPublishID)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	if have := p.drain("q"); len(have) > 0 {
		t.Errorf("the queue has %q", have)
	}
}

// When a channel ends, the deliveries that its transaction has settled without a commit return,
// those of basic.get included.
func TestTransactionThatEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := connect(t, c.AMQP(0))
	transactional(p, "q")
	p.publish("", "q", false, message.Message{Body: []byte("x")})
	p.send(1, &wire.TxCommit{})
	want[*wire.TxCommitOK](p)
	p.send(1, &wire.BasicGet{Queue: "q"})
	got := want[*wire.BasicGetOK](p)
	p.content()
	p.send(1, &wire.BasicAck{DeliveryTag: got.DeliveryTag})
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	p.comesBack("q", "x")
}

// comesBack waits until a message that a channel held is in its queue again.
func (p *peer) comesBack(queue, body string) {
	p.t.Helper()
	testcluster.Poll(p.t, "the message is back", func() error {
		if have := p.drain(queue); !slices.Equal(have, []string{body}) {
			return errorOf(have)
		}
		return nil
	})
}

// The transactions of all channels of a connection share one bound. A rollback, a commit and a
// close give the room back.
func TestTransactionsOfAConnection(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const size, most = 16 << 20, 128 << 20
	c := testcluster.StartWith(t, 1, broker.Config{MaxBodyBytes: size})
	p := connect(t, c.AMQP(0))
	p.openChannels(3)
	body := bytes.Repeat([]byte("x"), size)
	publish := func(ch uint16, n int) {
		t.Helper()
		for range n {
			p.write(bytes.Join(frames(ch, message.Message{Body: body}), nil))
		}
	}
	for ch := uint16(1); ch <= 3; ch++ {
		p.send(ch, &wire.TxSelect{})
		want[*wire.TxSelectOK](p)
	}
	publish(1, 3)
	publish(2, 3)
	p.send(2, &wire.TxRollback{})
	want[*wire.TxRollbackOK](p)
	publish(2, 2)
	p.send(2, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	publish(3, 3)
	p.send(1, &wire.TxCommit{}) // to a queue that does not exist
	want[*wire.TxCommitOK](p)
	p.send(2, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	p.send(2, &wire.TxSelect{})
	want[*wire.TxSelectOK](p)
	publish(2, 3)
	publish(1, most/size-6) // with 512 bytes for each message the last one is too much
	if text := p.channelClosed(wire.PreconditionFailed, wire.BasicPublishID); !strings.Contains(text, "134217728") {
		t.Fatal(text)
	}
	p.send(2, &wire.TxRollback{})
	want[*wire.TxRollbackOK](p)
	publish(3, 1)
	p.send(3, &wire.TxRollback{})
	want[*wire.TxRollbackOK](p)
}
