package broker

import (
	"strconv"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// Delay says when a message is to be ready: at a time in milliseconds since the Unix epoch,
// or after so many milliseconds; at most one of them. Both 0, or a time that has passed:
// it is not said.
type Delay struct {
	AtMs    int64
	AfterMs int64
}

// MaxDelayMs bounds how long a message can be told to wait, ten years in milliseconds.
const MaxDelayMs = policy.MaxTimeMs

// annotationDeliveryTime is the annotation of a returned message that says, as Delay.AtMs
// does, when it is to be ready (DR-4).
const annotationDeliveryTime = "x-opt-delivery-time"

// headerDelay is the header of a message that says for how many milliseconds it waits, in
// vhosts that look at it (DLY-1).
const headerDelay = "x-delay"

// check returns the field that is wrong, its value, and why; all empty if none is.
func (d Delay) check() (arg, value, reason string) {
	switch {
	case d.AtMs != 0 && d.AfterMs != 0:
		return "deliver_at", strconv.FormatInt(d.AtMs, 10), "comes with a delay as well; want one of them"
	case d.AtMs < 0:
		return "deliver_at", strconv.FormatInt(d.AtMs, 10), "want milliseconds since the Unix epoch"
	case d.AfterMs < 0 || d.AfterMs > MaxDelayMs:
		return "delay", strconv.FormatInt(d.AfterMs, 10), "want 0 to " + strconv.FormatInt(MaxDelayMs, 10) + " milliseconds"
	}
	return "", "", ""
}

// of returns the delay of what a client decided, by its fields or else by its annotation. A
// reason tells what is wrong.
func (d Delay) of(o Outcome, annotations message.Table) (_ quorumq.Delay, arg, value, reason string) {
	if o != Return {
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

func (d Delay) queue() quorumq.Delay {
	return quorumq.Delay{At: quorumq.Time(d.AtMs), Ms: d.AfterMs}
}

// delay finds out when a publish is to be ready: as it says itself, else by its header, in
// a vhost that looks at that. A header below 0 stands for none, as 0 does.
func (p *publishing) delay(m *Publish) (quorumq.Delay, error) {
	if arg, value, reason := m.Delay.check(); reason != "" {
		about := aboutMessage(m)
		about.Class, about.Arg, about.Value, about.Reason = PreconditionFailed, arg, value, reason
		return quorumq.Delay{}, &about
	}
	if m.Delay != (Delay{}) || len(m.Headers) == 0 {
		return m.Delay.queue(), nil
	}
	v, ok := m.Headers.Get(headerDelay)
	if !ok {
		return quorumq.Delay{}, nil
	}
	if h, known := p.b.view().VHost(m.VHost); !known || !h.DelayedPublish {
		return quorumq.Delay{}, nil
	}
	ms, isInt := v.AsInt()
	if !v.IsInt() || !isInt || ms > MaxDelayMs {
		about := aboutMessage(m)
		about.Class, about.Arg, about.Value = PreconditionFailed, headerDelay, v.String()
		about.Reason = "want an integer of at most " + strconv.FormatInt(MaxDelayMs, 10) + " milliseconds"
		return quorumq.Delay{}, &about
	}
	return quorumq.Delay{Ms: max(ms, 0)}, nil
}
