package broker

import (
	"math"
	"strconv"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Delay is when a message is to be ready: at a time in milliseconds since the Unix epoch,
// or after so many milliseconds; at most one of them. Both 0, or a time that has passed:
// at once.
type Delay struct {
	AtMs    int64
	AfterMs int64
}

// MaxDelayMs bounds how long a message can wait, ten years in milliseconds.
const MaxDelayMs = argument.MaxTimeMs

// annotationDeliveryTime is the annotation of a returned message that has, as Delay.AtMs
// has, when it is to be ready (DR-4).
const annotationDeliveryTime = "x-opt-delivery-time"

// headerDelay is the header of a message with the milliseconds for which it waits, in
// vhosts and at exchanges that look at it (DLY-1, DLY-2).
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
// reason is not empty if something is wrong.
func (d Delay) of(o Outcome, annotations message.Table) (_ quorumq.Delay, arg, value, reason string) {
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

func (d Delay) queue() quorumq.Delay {
	return quorumq.Delay{At: quorumq.Time(d.AtMs), Ms: d.AfterMs}
}

// delay finds out when a publish is to be ready: by its own Delay, else by its header, where
// the exchange or the vhost looks at that. A header below 0 stands for none, as 0 does.
func (p *publishing) delay(v *catalog.View, x *catalog.Exchange, m *Publish) (quorumq.Delay, error) {
	if arg, value, reason := m.Delay.check(); reason != "" {
		return quorumq.Delay{}, wrongDelay(m, arg, value, reason)
	}
	if m.Delay != (Delay{}) || len(m.Headers) == 0 {
		return m.Delay.queue(), nil
	}
	header, ok := m.Headers.Get(headerDelay)
	if !ok {
		return quorumq.Delay{}, nil
	}
	h, known := v.VHost(m.VHost)
	delays := x.Delays()
	if !delays && (!known || !h.DelayedPublish) {
		return quorumq.Delay{}, nil
	}
	ms, isInt := header.AsInt()
	if !isInt && delays {
		ms, isInt = asMilliseconds(header)
	}
	if !isInt || ms > MaxDelayMs {
		return quorumq.Delay{}, wrongDelay(m, headerDelay, header.String(),
			"want an integer of at most "+strconv.FormatInt(MaxDelayMs, 10)+" milliseconds")
	}
	if delays && ms > 0 {
		p.msg.Headers = p.msg.Headers.Clone()
		p.msg.Headers.Set(headerDelay, integer(-ms))
	}
	return quorumq.Delay{Ms: max(ms, 0)}, nil
}

// wrongDelay is the refusal of a publish whose delay cannot be meant.
func wrongDelay(m *Publish, arg, value, reason string) error {
	about := aboutMessage(m)
	about.Class, about.Arg, about.Value, about.Reason = failure.PreconditionFailed, arg, value, reason
	return &about
}

// asMilliseconds reads what RabbitMQ's plugin of delayed messages takes besides integers:
// the text of one, and a float, of which it takes the whole part (DLY-2).
func asMilliseconds(v message.Value) (ms int64, ok bool) {
	if s, is := v.AsString(); is {
		ms, err := strconv.ParseInt(s, 10, 64)
		return ms, err == nil
	}
	f, is := v.AsFloat()
	return int64(f), is && math.Abs(f) < 1<<53 // beyond, floats are no integers
}

// integer is of 32 bits where that is enough, as programs for the plugin know the header.
func integer(n int64) message.Value {
	if n < math.MinInt32 || n > math.MaxInt32 {
		return message.Int64(n)
	}
	return message.Int32(int32(n))
}
