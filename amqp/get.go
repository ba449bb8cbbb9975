package amqp

import (
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/wait"
)

// maxGetBytes bounds the messages that a connection's calls of basic.get may add to its output at a time, in bytes. Each
// counts as one of the largest size, because its own is known only once it is taken; one of them may always run.
const maxGetBytes = 64 << 20

// setAside waits until the output has room for another message of basic.get, and takes the room. Without it as many
// messages would come together as there are hands. It takes none if the connection is ending.
func (c *conn) setAside(bytes int) (taken bool, err error) {
	err = c.await(c.ctx, func() bool {
		switch {
		case c.endingLocked():
			return true
		case len(c.out) > outLimit, c.aside > 0 && c.aside+bytes > maxGetBytes:
			return false
		}
		c.aside += bytes
		taken = true
		return true
	})
	return taken, err
}

// giveBackAside ends what setAside has taken.
func (c *conn) giveBackAside(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside -= bytes
	c.changed.Broadcast()
}

// get answers basic.get. catchUp comes first: messages that this channel has just settled or
// published must count. The frames are appended under mu together with the delivery tag, so tags
// rise in the order on the wire.
func (ch *channel) get(m *wire.BasicGet) error {
	c := ch.c
	queue, err := ch.named(m.Queue, m.ID())
	if err != nil {
		return err
	}
	if err := ch.catchUp(m.ID()); err != nil {
		return err
	}
	largest := c.s.b.MaxBodyBytes()
	if taken, err := c.setAside(largest); !taken || err != nil {
		return err
	}
	defer c.giveBackAside(largest)
	got, err := c.s.b.Get(c.ctx, c.vhost, queue, m.NoAck)
	if err != nil {
		return faultOf(err, m.ID())
	}
	d := got.Delivery
	if d == nil {
		ch.send(&wire.BasicGetEmpty{})
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ch.delivered++
	if !m.NoAck {
		ch.unsettled.add(open{tag: ch.delivered, token: got.Token})
	}
	if ch.silent() { // the message returns with the channel's end
		return nil
	}
	c.out = wire.AppendMethod(c.out, ch.number, &wire.BasicGetOK{
		DeliveryTag: ch.delivered, Redelivered: d.Redelivered, Exchange: d.Message.Exchange,
		RoutingKey: d.Message.PrimaryKey(), MessageCount: atMost32(got.Ready),
	})
	c.out = wire.AppendContentHeader(c.out, ch.number, &d.Message, d.Headers(got.Classic))
	c.out = wire.AppendBody(c.out, ch.number, d.Message.Body, c.frameMax)
	wait.Wake(c.news)
	return nil
}
