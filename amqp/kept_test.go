package amqp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// publishTo sends the frames of a publish to a queue that does not exist: it is confirmed at once.
func (p *peer) publishTo(channel uint16, m message.Message) {
	p.t.Helper()
	for _, f := range frames(channel, m) {
		p.write(f)
	}
}

// What a client has published costs its idle connection nothing. The test measures memory, so it runs alone.
func TestPublishedBodiesAreNotKept(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const connections, size = 20, 4 << 20
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	peers := make([]*peer, connections)
	for i := range peers {
		peers[i] = connect(t, address)
		peers[i].send(1, &wire.ConfirmSelect{})
		want[*wire.ConfirmSelectOK](peers[i])
	}
	before := memory()
	body := make([]byte, size)
	for _, p := range peers {
		p.publishTo(1, message.Message{Body: body})
		want[*wire.BasicAck](p)
	}
	if more := memory() - before; more > connections*size/4 {
		t.Errorf("%d bytes more after messages of %d", more, connections*size)
	}
}

// longHeaders are headers that take headersMemory, and fit into one frame.
func longHeaders() (all message.Table) {
	for i := range 6 {
		nulls := slices.Repeat([]message.Value{message.Null()}, 1000)
		all = append(all, message.Field{Name: fmt.Sprint("h", i), Value: message.Array(nulls...)})
	}
	return all
}

// headersMemory is at least what longHeaders take once they are decoded.
const headersMemory = 200_000

// The headers of messages without a body cost idle channels nothing. The test measures memory, so it runs alone.
func TestHeadersAreNotKept(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const channels = 99 // one more is opened at the end
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	p := connect(t, address)
	p.openChannels(channels)
	m := message.Message{}
	m.Headers = longHeaders()
	before := memory()
	for ch := uint16(1); ch <= channels; ch++ {
		p.publishTo(ch, m)
	}
	p.send(channels+1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p) // everything before it was read
	if more := memory() - before; more > channels*headersMemory/4 {
		t.Errorf("%d bytes more after %d messages without a body", more, channels)
	}
}

// Headers count towards what transactions may hold, also those of messages without a body.
func TestTransactionCountsHeaders(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	_, address := serve(t, c, amqp.Config{})
	p := connect(t, address)
	p.send(1, &wire.TxSelect{})
	want[*wire.TxSelectOK](p)
	m := message.Message{}
	m.Headers = longHeaders()
	for range 300 { // some 480 KB each as they count, of 128 MiB
		p.publishTo(1, m)
	}
	p.send(1, &wire.TxCommit{})
	closed := want[*wire.ChannelClose](p)
	if wire.ReplyCode(closed.ReplyCode) != wire.PreconditionFailed || !strings.Contains(closed.ReplyText, "transactions of this connection hold more") {
		t.Errorf("%+v", closed)
	}
}
