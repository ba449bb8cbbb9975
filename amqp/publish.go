package amqp

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/message"
)

// content is a publish that is being read.
type content struct {
	expected bool // basic.publish has arrived: a header and bodies must follow
	header   bool
	m        wire.BasicPublish
	message  message.Message
	size     uint64
	buf      []byte // a body that arrives in several frames

	began  time.Time
	waited int64  // the connection's waited when the content began
	cost   int64  // memory of its header
	loose  int64  // its share of the connection's unfinished
	charge charge // what it holds of Incoming

	chance uint64        // see broker.Publish
	paused bool          // a rate holds it back, at its header
	age    time.Duration // with paused: its age when it was paused, which it keeps
}

// unexpected is the fault for a frame that is not the next part of the content.
func (x *content) unexpected() error {
	switch {
	case x.header:
		return refuse(wire.UnexpectedFrame, wire.BasicPublishID, "expected content body, got non content body frame instead")
	case x.expected:
		return refuse(wire.UnexpectedFrame, wire.BasicPublishID, "expected content header for class %d, got non content header frame instead", wire.ClassBasic)
	}
	return refuse(wire.UnexpectedFrame, 0, "expected method frame, got non method frame instead")
}

// publish begins a content with basic.publish. Nothing is checked against the catalog before the
// body is whole.
func (ch *channel) publish(payload []byte) error {
	x := &ch.content
	if err := wire.ParsePublish(payload, &ch.by.names, &x.m); err != nil {
		return faultOf(err, wire.BasicPublishID)
	}
	if x.m.Immediate {
		return refuse(wire.NotImplemented, wire.BasicPublishID, "immediate=true")
	}
	ch.begin()
	return nil
}

// header reads the content header. It refuses a body above the broker's limit before a byte of it
// is buffered.
func (ch *channel) header(payload []byte) error {
	x := &ch.content
	if !x.expected || x.header {
		return x.unexpected()
	}
	size, err := wire.ParseContentHeader(payload, &x.message)
	if err != nil {
		return faultOf(err, wire.BasicPublishID)
	}
	if most := uint64(ch.c.s.b.MaxBodyBytes()); size > most { // positive
		return refuse(wire.PreconditionFailed, wire.BasicPublishID, "message size %d is larger than configured max size %d", size, most)
	}
	if ch.c.s.b.Limits.MayBoundQueues() {
		if err := ch.awaitQueues(); err != nil || ch.c.isEnding() {
			return err
		}
	}
	x.header, x.size = true, size
	x.cost = int64(len(payload)) + fieldBytes*countFields(x.message.Headers)
	if size == 0 {
		return ch.complete(nil)
	}
	_, err = ch.holdHeader()
	return err
}

// body takes one body frame. A body in one frame is published from the read buffer; one in several
// frames is gathered, and counted by Incoming as it comes.
func (ch *channel) body(payload []byte) error {
	x := &ch.content
	if !x.header {
		return x.unexpected()
	}
	have := uint64(len(x.buf) + len(payload)) // positive
	switch {
	case have > x.size:
		return refuse(wire.FrameError, wire.BasicPublishID, "content body frame exceeds remaining content size").hardened()
	case len(x.buf) == 0 && have == x.size:
		return ch.complete(payload) // the usual case: nothing is copied
	}
	if held, err := ch.gather(payload); !held {
		return err
	}
	if have == x.size {
		return ch.complete(x.buf)
	}
	return nil
}

// complete publishes the message whose content is complete, or keeps it for tx.commit.
func (ch *channel) complete(body []byte) error {
	x := &ch.content
	defer ch.forget()
	if err := ch.ownReplies(&x.message); err != nil {
		return err
	}
	if ch.tx != nil {
		return ch.tx.publish(x, body)
	}
	return ch.enqueue(&x.m, &x.message, body, x.chance)
}

// enqueue hands a message to the broker.
func (ch *channel) enqueue(m *wire.BasicPublish, content *message.Message, body []byte, chance uint64) error {
	c := ch.c
	p := &ch.by.publish
	*p = broker.Publish{
		Message: message.Message{Properties: content.Properties, Headers: content.Headers, Exchange: m.Exchange, Body: body},
		VHost:   c.vhost, RoutingKey: m.RoutingKey, Mandatory: m.Mandatory, Sender: ch.sender,
		Unit: ch.unit, Chance: chance,
	}
	if ch.confirms {
		ch.published++
		p.Token = ch.published
	}
	ch.inline = broker.Result{}
	c.mu.Lock()
	c.inFlight++
	ch.inFlight++
	c.mu.Unlock()
	c.s.b.Publish(c.ctx, p, ch.done)
	*p = broker.Publish{} // or the hand would keep the body until its next message
	switch r := &ch.inline; r.Kind {
	case broker.Returned:
		ch.giveReturn(m, content, body)
		ch.confirm(result{tag: r.Token}, 0)
	case broker.Invalid:
		return faultOf(r.Err, wire.BasicPublishID)
	case broker.Confirmed, broker.Rejected:
	}
	return nil
}

// result receives the result of a publish. It may be called from any goroutine.
func (ch *channel) result(r broker.Result) {
	switch r.Kind {
	case broker.Returned, broker.Invalid: // while Publish is running
		ch.inline = r
		ch.confirm(result{}, 1)
	case broker.Rejected:
		for _, x := range r.Rejections {
			if x.Cause == broker.CauseNoSpace {
				ch.c.block(x.Reason, x.Queue)
			}
		}
		ch.c.log.Debug("a publish was refused", "channel", ch.number, "tag", r.Token, "queues", len(r.Rejections), "first", firstCause(r.Rejections))
		ch.confirm(result{tag: r.Token, refused: true}, 1)
	case broker.Confirmed:
		ch.confirm(result{tag: r.Token}, 1)
	}
}

// firstCause condenses the rejections for a debug line: the first queue, its cause by number, its
// reason.
func firstCause(all []broker.Rejection) string {
	if len(all) == 0 {
		return ""
	}
	return all[0].Queue + ": " + strconv.Itoa(int(all[0].Cause)) + " " + all[0].Reason
}

// confirm queues the result for the client if the channel is in confirm mode, and counts the
// publishes that now have a result.
func (ch *channel) confirm(r result, decided int) {
	c := ch.c
	c.mu.Lock()
	full := c.inFlight >= c.s.cfg.PublishWindow
	c.inFlight -= decided
	ch.inFlight -= decided
	full = full || ch.inFlight == 0
	answers := r.tag != 0 && !ch.gone
	if answers {
		if len(ch.results) == 0 {
			c.settling = append(c.settling, ch)
		}
		ch.results = append(ch.results, r)
		c.results++
	}
	c.mu.Unlock()
	if answers {
		wait.Wake(c.news)
	}
	if full {
		c.changed.Broadcast()
	}
}

// forgetResults counts results that no longer wait for the client. mu is held.
func (c *conn) forgetResults(n int) {
	if c.results >= maxResults && c.results-n < maxResults {
		c.changed.Broadcast()
	}
	c.results -= n
}

// giveReturn returns a mandatory message to its publisher, because it was routed to no queue
// (PUB-3).
func (ch *channel) giveReturn(m *wire.BasicPublish, content *message.Message, body []byte) {
	c := ch.c
	headers := content.Headers.Without("BCC")
	back := message.Message{Properties: content.Properties, Body: body}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch.silent() {
		return
	}
	c.out = wire.AppendMethod(c.out, ch.number, &wire.BasicReturn{
		ReplyCode: uint16(wire.NoRoute), ReplyText: wire.NoRoute.String(), Exchange: m.Exchange, RoutingKey: m.RoutingKey,
	})
	c.out = wire.AppendContentHeader(c.out, ch.number, &back, headers)
	c.out = wire.AppendBody(c.out, ch.number, body, c.frameMax)
	wait.Wake(c.news)
}

// selectConfirms turns on confirm mode, which excludes transactions, as in RabbitMQ.
func (ch *channel) selectConfirms(m *wire.ConfirmSelect) error {
	if ch.tx != nil {
		return refuse(wire.PreconditionFailed, m.ID(), "cannot switch from tx to confirm mode")
	}
	ch.confirms = true
	ch.show()
	return ch.answer(m.NoWait, &wire.ConfirmSelectOK{})
}
