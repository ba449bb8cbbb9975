package broker

import (
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Outcome is what a client decides about a delivery (DEL-8).
type Outcome uint8

// The outcomes.
const (
	Ack Outcome = iota + 1
	Requeue
	Discard
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
	var run quorumq.MsgIDRange
	for _, n := range s.IDs {
		if !c.open.decide(n) {
			unknown = append(unknown, n)
			continue
		}
		m := quorumq.MsgID(n)
		if run.First != 0 && m == run.Last+1 {
			run.Last = m
			continue
		}
		if run.First != 0 {
			c.decide(run, d, s.Annotations)
		}
		run = quorumq.MsgIDRange{First: m, Last: m}
	}
	if run.First != 0 {
		c.decide(run, d, s.Annotations)
	}
	return unknown, nil
}

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

// decision checks and converts what a client decided.
func decision(o Outcome, failed bool, annotations message.Table, delay Delay, about failure.Error) (gateway.Decision, error) {
	about.Class = failure.PreconditionFailed
	var d gateway.Decision
	switch o {
	case Ack:
		d.Kind = gateway.Ack
	case Requeue:
		d.Kind = gateway.Requeue
	case Discard:
		d.Kind = gateway.Discard
	default:
		about.Arg, about.Reason = "outcome", "not set; want ack, return or discard"
		return d, &about
	}
	if o == Ack {
		if failed || len(annotations) > 0 || delay != (Delay{}) {
			about.Arg, about.Reason = "outcome", "an ack carries neither failed, annotations nor delay; the message is gone"
			return d, &about
		}
		return d, nil
	}
	d.Failed = failed
	if d.Delay, about.Arg, about.Value, about.Reason = delay.of(o, annotations); about.Reason != "" {
		return d, &about
	}
	if len(annotations) == 0 {
		return d, nil
	}
	for _, f := range annotations {
		if !strings.HasPrefix(f.Name, "x-") { // DEL-11
			about.Arg, about.Value, about.Reason = "annotations", f.Name, `names must start with "x-"`
			return d, &about
		}
	}
	if err := message.CheckTable("annotations", annotations); err != nil {
		return d, failure.Translate(err, about)
	}
	d.Annotations = message.AppendTable(nil, annotations)
	return d, nil
}
