package broker

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Settlement decides about deliveries: those of IDs in that order or, with UpTo above 0,
// every unacked one up to it.
type Settlement struct {
	IDs         []uint64
	UpTo        uint64
	Outcome     Outcome
	Failed      bool
	Annotations message.Table // names start with "x-" (DEL-11)
	Delay       Delay         // with Requeue only
}

// MaxSettlementIDs bounds Settlement.IDs.
const MaxSettlementIDs = 10_000

// Settle takes decisions and returns the ids that were not this consumer's to decide:
// never delivered, or decided before (DEL-6). It does not wait: see Flush.
func (c *Consumer) Settle(s *Settlement) (unknown []uint64, err error) {
	d, err := decision(s.Outcome, s.Failed, s.Annotations, s.Delay, c.about)
	if err != nil {
		return nil, err
	}
	if len(s.IDs) > MaxSettlementIDs {
		about := c.about
		about.Class, about.Arg = failure.PreconditionFailed, "delivery_ids"
		about.Reason = "more than 10000 in one settlement; split it"
		return nil, &about
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.UpTo > 0 {
		return c.settleUpTo(s.UpTo, d, s.Annotations), nil
	}
	var few [8]quorumq.MsgIDRange // enough for most, without an allocation
	runs := few[:0]
	for _, n := range s.IDs {
		if !c.open.decide(n) {
			unknown = append(unknown, n)
			continue
		}
		runs = appendRun(runs, quorumq.MsgID(n))
	}
	for _, run := range runs {
		c.decide(run, d, s.Annotations)
	}
	return unknown, nil
}

// decide takes a decision about a range to the queue. The caller holds mu.
func (c *Consumer) decide(r quorumq.MsgIDRange, d gateway.Decision, added message.Table) {
	c.annotations.decide(r, d, added, func(r quorumq.MsgIDRange, d gateway.Decision) { c.c.Decide(r, d) })
}

// settleUpTo decides about all unacked deliveries up to one. The caller holds mu.
func (c *Consumer) settleUpTo(to uint64, d gateway.Decision, added message.Table) (unknown []uint64) {
	if to > c.taken || c.autoAck {
		unknown = []uint64{to}
		to = c.taken
	}
	if c.autoAck {
		return unknown
	}
	if first := c.open.decideUpTo(to); first <= to {
		c.decide(quorumq.MsgIDRange{First: quorumq.MsgID(first), Last: quorumq.MsgID(to)}, d, added)
	}
	return unknown
}

// ExtendAckDeadline lets the client have deliveries for so many milliseconds from now, above 0, if
// that is longer than it may (CT-5). Those it does not hold, or without end, stay as they are.
func (c *Consumer) ExtendAckDeadline(ctx context.Context, ids []uint64, ms int64) error {
	about := c.about
	about.Class = failure.PreconditionFailed
	switch {
	case ms <= 0:
		about.Arg, about.Value, about.Reason = "milliseconds", strconv.FormatInt(ms, 10), "want 1 or more"
		return &about
	case len(ids) > MaxSettlementIDs:
		about.Arg, about.Reason = "delivery_ids", "more than 10000 at a time; split them"
		return &about
	}
	var ranges []quorumq.MsgIDRange
	for _, n := range ids {
		if n != 0 && n <= maxDeliveryID {
			ranges = appendRun(ranges, quorumq.MsgID(n))
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	_, err := c.c.Extend(ctx, ranges, ms)
	return failure.Translate(err, c.about)
}

// SettleToken names the consumer for SettleAndPublish on any node, to the context's caller alone;
// "" with auto-ack.
func (c *Consumer) SettleToken(ctx context.Context) (string, error) {
	if c.autoAck {
		return "", nil
	}
	seal, err := c.b.settleTokens.Seal(ctx)
	if err != nil {
		return "", err
	}
	return seal.Text(c.c.Token()), nil
}
