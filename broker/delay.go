package broker

import (
	"strconv"

	"github.com/quorate/quorate/argument"
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

func (d Delay) queue() quorumq.Delay {
	return quorumq.Delay{At: quorumq.Time(d.AtMs), Ms: d.AfterMs}
}
