package amqp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// DEL-1, DEL-8: the messages that a channel has taken with basic.get and not settled are back in their queue when
// close-ok comes, in the order of their delivery.
func TestGetsReturnInOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{{Name: "x-queue-type", Value: message.String("quorum")}}})
	want[*wire.QueueDeclareOK](p)
	p.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](p)
	var bodies []string
	for i := range 100 {
		bodies = append(bodies, fmt.Sprint(i))
		p.publish("", "q", false, message.Message{Body: []byte(bodies[i])})
		want[*wire.BasicAck](p)
	}
	for range bodies {
		p.send(1, &wire.BasicGet{Queue: "q"})
		want[*wire.BasicGetOK](p)
		p.content()
	}
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	if have := other.drain("q"); !slices.Equal(have, bodies) {
		t.Errorf("the queue has %q, want %q", have, bodies)
	}
}
