package broker

import (
	"math"
	"strconv"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// headerDelay is the header with the milliseconds for which a message waits. Only vhosts and exchanges that are set up
// for it look at the header (DLY-1, DLY-2).
const headerDelay = "x-delay"

// publishDelay returns when a publish becomes ready: as its own Delay says, or else its header, if the exchange or the
// vhost looks at the header. A negative header counts as 0, no delay. If the exchange looks at the header, publishDelay
// also changes the header (DLY-2).
func publishDelay(v *catalog.View, x *catalog.Exchange, m *Publish) (quorumq.Delay, error) {
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
		m.Headers = m.Headers.Clone()
		m.Headers.Set(headerDelay, integer(-ms))
	}
	return quorumq.Delay{Ms: max(ms, 0)}, nil
}

// wrongDelay refuses a publish whose delay makes no sense.
func wrongDelay(m *Publish, arg, value, reason string) error {
	about := aboutMessage(m)
	about.Class, about.Arg, about.Value, about.Reason = failure.PreconditionFailed, arg, value, reason
	return &about
}

// asMilliseconds reads the values that RabbitMQ's plugin for delayed messages accepts besides integers: an integer as
// text, and a float, of which it takes the whole part (DLY-2).
func asMilliseconds(v message.Value) (ms int64, ok bool) {
	if s, is := v.AsString(); is {
		ms, err := strconv.ParseInt(s, 10, 64)
		return ms, err == nil
	}
	f, is := v.AsFloat()
	return int64(f), is && math.Abs(f) < 1<<53 // larger floats do not have every integer
}

// integer returns a value of 32 bits where that is enough, because programs that use the plugin expect the header in
// that form.
func integer(n int64) message.Value {
	if n < math.MinInt32 || n > math.MaxInt32 {
		return message.Int64(n)
	}
	return message.Int32(int32(n))
}
