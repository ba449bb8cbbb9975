package broker

import (
	"math"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// headerDelay is the header of a message with the milliseconds for which it waits, in
// vhosts and at exchanges that look at it (DLY-1, DLY-2).
const headerDelay = "x-delay"

// publishDelay finds out when a publish is to be ready: by its own Delay, else by its header, where
// the exchange or the vhost looks at that. A header below 0 stands for none, as 0 does. An exchange that looks at
// the header has it changed in stored (DLY-2).
func publishDelay(v *catalog.View, x *catalog.Exchange, m *Publish, stored *message.Message) (quorumq.Delay, error) {
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
		stored.Headers = stored.Headers.Clone()
		stored.Headers.Set(headerDelay, integer(-ms))
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
