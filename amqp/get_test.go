package amqp_test

import (
	"bytes"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// A client that reads nothing and gets the largest message on each of many channels has a few of them in the node's
// memory, not as many as its calls that run at a time.
func TestGetsUnread(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const (
		size, channels = 16 << 20, 12
		most           = 2 * (64 << 20) / size // in the buffer that is being written, and behind it
	)
	c := testcluster.StartWith(t, 1, broker.Config{MaxBodyBytes: size})
	p, other := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	for _, x := range []*peer{p, other} {
		x.patience = 4 * patience
	}
	for _, q := range []string{"q", "empty"} {
		other.send(1, &wire.QueueDeclare{Queue: q, Durable: true})
		want[*wire.QueueDeclareOK](other)
	}
	other.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](other)
	body := bytes.Repeat([]byte("x"), size)
	for range channels {
		other.publish("", "q", false, message.Message{Body: body})
		want[*wire.BasicAck](other)
	}
	p.openChannels(channels)
	var gets []byte
	for n := uint16(1); n <= channels; n++ {
		gets = wire.AppendMethod(gets, n, &wire.BasicGet{Queue: "q"})
	}
	p.write(gets)
	testcluster.Poll(t, "some are taken", func() error {
		if n := other.ready("q"); n > channels-2 { // how many more run beside the first is chance
			return errorOf(n)
		}
		return nil
	})
	for range 200 { // what could run has run
		other.send(1, &wire.BasicGet{Queue: "empty"})
		want[*wire.BasicGetEmpty](other)
	}
	if taken := channels - other.ready("q"); taken > most {
		t.Errorf("a client that reads nothing has %d messages of %d bytes in memory, want at most %d", taken, size, most)
	} else {
		t.Logf("it has %d", taken)
	}
	for range channels { // it reads in the end
		want[*wire.BasicGetOK](p)
		if _, b := p.content(); len(b) != size {
			t.Errorf("%d bytes", len(b))
		}
	}
}
