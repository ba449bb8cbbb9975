package amqp_test

import (
	"testing"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// A channel that is closed for what its client did, or because a message is above the limit, is counted; its connection is
// none that failed. A channel that its client closes does not count.
func TestFailedChannelsAreCounted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	s, address := serve(t, testcluster.Start(t, 1), amqp.Config{})
	p := connect(t, address)
	p.send(1, &wire.ChannelClose{ReplyCode: 200})
	want[*wire.ChannelCloseOK](p)
	for range 2 {
		p.send(1, &wire.ChannelOpen{})
		want[*wire.ChannelOpenOK](p)
		header := wire.AppendContentHeader(nil, 1, &message.Message{}, nil)
		header[7+4] = 0x7f // the highest byte of its size
		p.write(append(wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "q"}), header...))
		p.channelClosed(wire.PreconditionFailed, wire.BasicPublishID)
	}
	if x := s.Stats(); x.ChannelsFailed != 2 || x.Failed != 0 {
		t.Errorf("%+v", x)
	}
}
