package amqp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// returnHeld has a node return the first message that a client of node 0 has from a queue: by basic.get, for which the
// tag is 0, or by its only consumer there.
func returnHeld(t *testing.T, c *testcluster.Cluster, node int, queue string, tag uint32) {
	t.Helper()
	r, ok := c.Cluster(0).View().Queue("/", queue)
	if !ok {
		t.Fatalf("no queue %s", queue)
	}
	holder, epoch := c.Cluster(0).Self()
	for session := uint64(1); session < 100; session++ {
		token := gateway.ConsumerToken{Queue: r.UID, MsgID: 1, Consumer: quorumq.ConsumerKey{
			SessionKey: quorumq.SessionKey{Node: holder, Epoch: epoch, Session: session}, Tag: tag,
		}}
		switch err := c.Cluster(node).Gateway().DecideToken(t.Context(), token, gateway.Decision{Kind: gateway.Requeue}); {
		case err == nil:
			return
		case !errors.Is(err, traffic.ErrConsumerGone):
			t.Fatal(err)
		}
	}
	t.Fatal("no session holds a message")
}

// PUB-9: a commit fails if a message of basic.get that it acknowledges is back in its queue. Nothing is published if
// this node has returned it; if only the queue knows, what was published stays.
func TestGetReturnedBeforeCommit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	for node, published := range map[int][]string{0: nil, 1: {"output"}} {
		t.Run(fmt.Sprint("by node ", node), func(t *testing.T) {
			in, out := fmt.Sprint("in ", node), fmt.Sprint("out ", node)
			p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
			transactional(p, in, out)
			p.publish("", in, false, message.Message{Body: []byte("input")})
			p.send(1, &wire.TxCommit{})
			want[*wire.TxCommitOK](p)
			p.send(1, &wire.BasicGet{Queue: in})
			got := want[*wire.BasicGetOK](p)
			p.content()
			p.publish("", out, false, message.Message{Body: []byte("output")})
			p.send(1, &wire.BasicAck{DeliveryTag: got.DeliveryTag})
			testcluster.Poll(t, "the node knows the queue", func() error {
				if _, ok := c.Cluster(node).View().Queue("/", in); !ok {
					return errorOf(in)
				}
				return nil
			})
			returnHeld(t, c, node, in, 0)
			p.send(1, &wire.TxCommit{})
			p.channelClosed(wire.PreconditionFailed, wire.TxCommitID)
			if have := other.drain(out); !slices.Equal(have, published) {
				t.Errorf("the commit published %q, want %q", have, published)
			}
			other.comesBack(in, "input")
		})
	}
}

// DEL-5: a client that leaves while it gets a message takes nothing back that others hold.
func TestGetWhoseClientLeaves(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	for _, body := range []string{"held", "left"} {
		p.publish("", "q", false, message.Message{Body: []byte(body)})
		want[*wire.BasicAck](p)
	}
	p.send(1, &wire.BasicGet{Queue: "q"})
	got := want[*wire.BasicGetOK](p)
	p.content()
	for range 20 {
		got, err := c.Broker(0).Get(identity.WithIdentity(ended(), identity.Itself()), "/", "q", false)
		if got.Delivery != nil || err != nil && !errors.Is(err, context.Canceled) { // nil: it found nothing
			t.Fatalf("a client that has left gets %+v, %v", got, err)
		}
	}
	p.send(1, &wire.BasicAck{DeliveryTag: got.DeliveryTag})
	p.send(1, &wire.BasicQos{}) // the channel is open, so the ack was accepted
	want[*wire.BasicQosOK](p)
	other.comesBack("q", "left")
}
