package broker

import (
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Outcome is a client's decision about a delivery (DEL-8).
type Outcome uint8

// The outcomes.
const (
	Ack Outcome = iota + 1
	Requeue
	Discard
)

// annotationDeliveryTime is the annotation of a returned message that says when it becomes ready,
// as Delay.AtMs does (DR-4).
const annotationDeliveryTime = "x-opt-delivery-time"

// delayOf returns the delay that a client's decision asks for: d, or else the time in the
// annotation. If something is wrong, reason describes it, and arg and value name it.
func delayOf(o Outcome, d Delay, annotations message.Table) (_ quorumq.Delay, arg, value, reason string) {
	if o != Requeue {
		if d != (Delay{}) {
			return quorumq.Delay{}, "delay", "", "only a return can be delayed"
		}
		return quorumq.Delay{}, "", "", ""
	}
	if arg, value, reason = d.check(); reason != "" {
		return quorumq.Delay{}, arg, value, reason
	}
	if d == (Delay{}) {
		if v, ok := annotations.Get(annotationDeliveryTime); ok {
			at, isInt := v.AsInt()
			if !v.IsInt() || !isInt || at < 0 {
				return quorumq.Delay{}, annotationDeliveryTime, v.String(), "want an integer, milliseconds since the Unix epoch"
			}
			d.AtMs = at
		}
	}
	return d.queue(), "", "", ""
}

// decision checks a client's decision, and converts it for the gateway.
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
	if d.Delay, about.Arg, about.Value, about.Reason = delayOf(o, delay, annotations); about.Reason != "" {
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

// maxDeliveryID is above every id that a consumer gets.
const maxDeliveryID = 1 << 62

// appendRun adds an id to ranges of ascending ids. It extends the last range if the id follows
// directly.
func appendRun(runs []quorumq.MsgIDRange, m quorumq.MsgID) []quorumq.MsgIDRange {
	if last := len(runs) - 1; last >= 0 && runs[last].Last+1 == m {
		runs[last].Last = m
		return runs
	}
	return append(runs, quorumq.MsgIDRange{First: m, Last: m})
}
