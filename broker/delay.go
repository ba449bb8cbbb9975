package broker

import (
	"strconv"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/quorumq"
)

// Delay says when a message becomes ready: at a time in milliseconds since the Unix epoch, or after
// a number of milliseconds. At most one of them is set. If both are 0, or the time has passed, the
// message is ready at once.
type Delay struct {
	AtMs    int64
	AfterMs int64
}

// MaxDelayMs limits how long a message can wait: ten years, in milliseconds.
const MaxDelayMs = argument.MaxTimeMs

// check returns the field that is wrong, its value, and what is wanted; all are empty if nothing is
// wrong.
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

func (d Delay) queue() quorumq.Delay {
	return quorumq.Delay{At: quorumq.Time(d.AtMs), Ms: d.AfterMs}
}
