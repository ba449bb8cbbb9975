package broker

import (
	"context"
	"errors"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Settlement is a decision about deliveries: about those in IDs, in that order, or with UpTo above
// 0 about all unacked ones up to UpTo.
type Settlement struct {
	IDs         []uint64
	UpTo        uint64
	Outcome     Outcome
	Failed      bool
	Annotations message.Table // names start with "x-" (DEL-11)
	Delay       Delay         // with Requeue only
}

// DeadLetters reports that a consumer has ended with err because its queue dead-letters its messages before it is deleted
// those that the consumer held included: later settlements have no effect.
func DeadLetters(err error) bool { return errors.Is(err, traffic.ErrDrainDeleting) }

// MaxSettlementIDs limits Settlement.IDs.
const MaxSettlementIDs = 10_000

// Settle passes a decision to the queue. It returns the ids that this consumer could not decide
// about, because they were never delivered or are already decided, or because the consumer has ended
// (DEL-6). It does not wait for the queue: see Flush.
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
		for _, r := range c.decide(run, d, s.Annotations) {
			for id := r.First; id <= r.Last; id++ {
				unknown = append(unknown, uint64(id))
			}
		}
	}
	return unknown, nil
}

// decide passes a decision about a range to the queue. It returns the parts of the range of which
// nothing was unacked, or that come too late because the consumer has ended. The caller holds mu.
func (c *Consumer) decide(r quorumq.MsgIDRange, d gateway.Decision, added message.Table) (missed []quorumq.MsgIDRange) {
	if len(c.traced) > 0 {
		c.traced.settle(c.b.tracer, c.about, r, traceDecision(d.Kind), d.Failed)
	}
	c.annotations.decide(r, d, added, func(r quorumq.MsgIDRange, d gateway.Decision) {
		if c.c.Decide(r, d) == 0 {
			missed = append(missed, r)
		}
	})
	return missed
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
	if first := c.open.first(); first <= to {
		for _, r := range c.decide(quorumq.MsgIDRange{First: quorumq.MsgID(first), Last: quorumq.MsgID(to)}, d, added) {
			unknown = c.open.appendOpen(unknown, uint64(r.First), uint64(r.Last))
		}
		c.open.decideUpTo(to)
	}
	return unknown
}

// ExtendAckDeadline gives the client ms milliseconds from now to settle deliveries, if that is
// longer than it has already (CT-5). ms must be above 0. Deliveries that the client does not hold,
// or that have no ack deadline, stay as they are.
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

// SettleToken returns a token that names the consumer for SettleAndPublish on any node. Only the
// caller of this context can use the token. With auto-ack it is "".
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
