package session

import (
	"github.com/quorate/quorate/quorumq"
)

// Verdict says what to do with a delivery.
type Verdict uint8

// The verdicts.
const (
	// New: pass it to the client.
	New Verdict = iota
	// Repeat: the client has it already, or had it.
	Repeat
	// Missing: at least one earlier delivery was lost. Ask the leader for Queue.Assigned after Last, and pass the
	// answer to Resumed; it will include this delivery.
	Missing
)

// Consumer follows the deliveries of one consumer, and keeps its client's decisions until the queue has answered them.
type Consumer struct {
	key      quorumq.ConsumerKey
	last     quorumq.MsgID // newest id passed to the client
	resuming bool
	gone     bool
	autoAck  bool // the newest delivery needs no outcome

	unsettled idSet // passed to the client, no outcome yet

	// outcomes holds what is not answered yet, in the client's order; base is the number of outcomes[0]. Next continues
	// at sent. The first given outcomes were part of a command and must not change.
	outcomes    []outcome
	base        uint64
	sent, given int
	deciding    int    // messages in outcomes
	dropped     uint64 // outcomes without an answer when the queue no longer knew the consumer
	void        uint64 // outcomes that the client has decided and that had no effect
}

// outcome is a future command: its kind and ranges. Annotations belong to one outcome.
type outcome struct {
	kind        outcomeKind
	failed      bool
	delay       quorumq.Delay
	ranges      []quorumq.MsgIDRange
	annotations []byte
	answered    bool
	client      bool // the client has decided about some of the messages: not all were skipped
	again       bool // an earlier attempt may have been carried out
}

// outcomeKind is the kind of a decision about deliveries.
type outcomeKind uint8

const (
	settled outcomeKind = iota
	requeued
	discarded
)

// maxRanges limits the ranges of one command.
const maxRanges = 1024

// NewConsumer returns the gateway's side of a consumer; last is Reply.LastMsgID of its
// Checkout, or 0 for the consumer of Get.
func NewConsumer(key quorumq.ConsumerKey, last quorumq.MsgID) *Consumer {
	return &Consumer{key: key, last: last}
}

// Key returns the consumer's key.
func (c *Consumer) Key() quorumq.ConsumerKey { return c.key }

// Last returns the newest id passed to the client; a resume continues after it.
func (c *Consumer) Last() quorumq.MsgID { return c.last }

// Gone reports whether the queue no longer knows the consumer. Then nothing more will come, and what was unacked has
// returned to the queue. A new subscription needs a new key.
func (c *Consumer) Gone() bool { return c.gone }

// Unsettled returns how many deliveries have no outcome yet.
func (c *Consumer) Unsettled() int { return c.unsettled.len() }

// Deciding returns how many messages have an outcome that the queue has not answered.
func (c *Consumer) Deciding() int { return c.deciding }

// Deliver decides what to do with a delivery that the queue has sent by itself. autoAck means that the queue has
// settled it at assignment (DEL-4), so that no outcome is expected.
func (c *Consumer) Deliver(d quorumq.Delivery, autoAck bool) Verdict {
	switch {
	case d.MsgID <= c.last:
		return Repeat
	case d.MsgID != c.last+1:
		c.resuming, c.autoAck = true, autoAck
		return Missing
	}
	c.handle(d.MsgID, autoAck)
	return New
}

// Assign records the delivery of a Get. Its number needs no predecessor, because Get answers directly and an answer may
// be lost. Assign returns false for a repeat.
func (c *Consumer) Assign(d quorumq.Delivery, autoAck bool) bool {
	if d.MsgID <= c.last {
		return false
	}
	c.handle(d.MsgID, autoAck)
	return true
}

// handle records a delivery that is passed to the client. It expects an outcome, unless autoAck is set.
func (c *Consumer) handle(m quorumq.MsgID, autoAck bool) {
	c.last, c.autoAck = m, autoAck
	if !autoAck {
		c.unsettled.add(m)
	}
}

// NeedsResume reports whether a Missing verdict or a Rewind still waits for Resumed.
func (c *Consumer) NeedsResume() bool { return c.resuming }

// Resumed processes the answer to a resume: the deliveries with ids above Last, ascending, and the consumer's newest id
// (Queue.LastMsgID). It calls deliver for each delivery that is new to the client. Ids that are missing in between no
// longer belong to the consumer: with auto-ack they are lost, as agreed (DEL-4); otherwise they timed out before the
// client saw them. The client will never decide about these, but the queue waits for that before it assigns more
// (CT-2). So Resumed requeues them, which changes nothing: the consumer does not hold them. What nobody has seen is never
// settled.
func (c *Consumer) Resumed(ds []quorumq.Delivery, last quorumq.MsgID, deliver func(quorumq.Delivery)) {
	c.resuming = false
	for _, d := range ds {
		if d.MsgID > c.last {
			c.skip(d.MsgID - 1)
			c.handle(d.MsgID, false)
			deliver(d)
		}
	}
	c.skip(last)
}

// skip skips numbers that the client will never get.
func (c *Consumer) skip(to quorumq.MsgID) {
	if to <= c.last {
		return
	}
	r := quorumq.MsgIDRange{First: c.last + 1, Last: to}
	c.last = to
	if c.autoAck || c.gone {
		return
	}
	c.deciding += int(r.Last-r.First) + 1
	if o := (outcome{kind: requeued}); !c.merge(o, r) {
		o.ranges = append(o.ranges, r)
		c.outcomes = append(c.outcomes, o)
	}
}

// Settle records that the client has accepted r. It ignores ids without a delivery, or already decided, and returns how
// many ids it has decided.
func (c *Consumer) Settle(r quorumq.MsgIDRange) int {
	return c.decide(outcome{kind: settled}, r)
}

// Requeue records that the client returns r (DEL-8). Annotations, if not nil, are merged into each message (DEL-11).
// The delay says when the messages become ready (DR-4).
func (c *Consumer) Requeue(r quorumq.MsgIDRange, failed bool, annotations []byte, delay quorumq.Delay) int {
	return c.decide(outcome{kind: requeued, failed: failed, annotations: annotations, delay: delay}, r)
}

// Discard records that the client has rejected r for good. Messages are dead-lettered in the order of the calls
// (DL-11).
func (c *Consumer) Discard(r quorumq.MsgIDRange, failed bool, annotations []byte) int {
	return c.decide(outcome{kind: discarded, failed: failed, annotations: annotations}, r)
}

// decide removes r from the unsettled ids, and returns how many it removed. If the last outcome was not sent and is
// of the same kind, it is extended.
func (c *Consumer) decide(o outcome, r quorumq.MsgIDRange) int {
	o.client = true
	n := 0
	c.unsettled.remove(r, func(r quorumq.MsgIDRange) {
		n += int(r.Last-r.First) + 1
		if len(o.ranges) > 0 || !c.merge(o, r) {
			o.ranges = append(o.ranges, r)
		}
	})
	if c.gone {
		return n
	}
	c.deciding += n
	if len(o.ranges) > 0 {
		c.outcomes = append(c.outcomes, o)
	}
	return n
}

// merge adds r to the newest outcome, if that was not sent, is of the same kind, and keeps the order that the queue
// will use.
func (c *Consumer) merge(o outcome, r quorumq.MsgIDRange) bool {
	i := len(c.outcomes) - 1
	if i < c.given || i < 0 || o.annotations != nil {
		return false
	}
	l := &c.outcomes[i]
	if l.kind != o.kind || l.failed != o.failed || l.delay != o.delay || l.annotations != nil {
		return false
	}
	end := &l.ranges[len(l.ranges)-1]
	switch {
	case r.First == end.Last+1:
		end.Last = r.Last
	case len(l.ranges) == maxRanges:
		return false
	case o.kind == requeued && r.First < end.Last:
		return false // one Requeue returns messages in delivery order (DEL-1)
	default:
		l.ranges = append(l.ranges, r)
	}
	l.client = l.client || o.client
	return true
}

// Next returns the next command to send, its number for Answer, and its body if it has annotations. The ranges of the
// command stay valid and unchanged until it is answered.
func (c *Consumer) Next() (cmd quorumq.Command, number uint64, body []byte, ok bool) {
	for c.sent < len(c.outcomes) && c.outcomes[c.sent].answered {
		c.sent++
	}
	if c.sent == len(c.outcomes) {
		return nil, 0, nil, false
	}
	o := &c.outcomes[c.sent]
	number = c.base + uint64(c.sent)
	c.sent++
	c.given = max(c.given, c.sent)
	switch o.kind {
	case requeued:
		cmd = &quorumq.Requeue{Consumer: c.key, Ranges: o.ranges, Failed: o.failed, HasAnnotations: o.annotations != nil, Delay: o.delay}
	case discarded:
		cmd = &quorumq.Discard{Consumer: c.key, Ranges: o.ranges, Failed: o.failed, HasAnnotations: o.annotations != nil}
	case settled:
		cmd = &quorumq.Settle{Consumer: c.key, Ranges: o.ranges}
	}
	return cmd, number, o.annotations, true
}

// Unanswered returns how many outcomes the queue has not answered; each is one command.
func (c *Consumer) Unanswered() int {
	n := 0
	for i := range c.outcomes {
		if !c.outcomes[i].answered {
			n++
		}
	}
	return n
}

// Answer processes the reply to the command with this number. Late and repeated answers have no effect.
func (c *Consumer) Answer(number uint64, r quorumq.Reply) {
	if r.Code == quorumq.CodeUnknownConsumer {
		c.lose()
		return
	}
	if number < c.base || number >= c.base+uint64(len(c.outcomes)) {
		return
	}
	o := &c.outcomes[number-c.base]
	if o.isVoid(r.Code) {
		c.void++
	}
	for _, r := range o.ranges {
		c.deciding -= int(r.Last-r.First) + 1
	}
	*o = outcome{answered: true}
	n := 0
	for n < len(c.outcomes) && c.outcomes[n].answered {
		n++
	}
	if n > 0 {
		c.base += uint64(n)
		c.sent, c.given = max(c.sent-n, 0), max(c.given-n, 0)
		c.outcomes = append(c.outcomes[:0], c.outcomes[n:]...)
	}
}

// isVoid reports whether an answer means that the client's decision had no effect. CodeNotHeld means that only if no
// earlier attempt may have settled the messages.
func (o *outcome) isVoid(code quorumq.ReplyCode) bool {
	return o.client && code != quorumq.CodeOK && (!o.again || code != quorumq.CodeNotHeld)
}

// lose drops everything, because the queue has no such consumer. What is dropped never counts as committed.
func (c *Consumer) lose() {
	c.gone = true
	c.dropped += uint64(len(c.outcomes))
	c.outcomes, c.sent, c.given, c.deciding = nil, 0, 0, 0
	c.unsettled = idSet{}
}

// Rewind makes Next return every unanswered outcome again, in order, and makes NeedsResume true. It is for a change of
// leader or a broken stream (DEL-12).
func (c *Consumer) Rewind() {
	for i := range c.outcomes[:c.given] {
		c.outcomes[i].again = true
	}
	c.sent = 0
	c.resuming = !c.gone
}
