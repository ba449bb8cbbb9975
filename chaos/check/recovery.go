package check

import (
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// Recovery is how publishers came through a fault.
type Recovery struct {
	Fault history.Event
	// Confirm is how long after the fault the first message that was published after it was
	// confirmed; negative if none was.
	Confirm time.Duration
	// Pause is the longest time without a confirm that any publisher saw from the fault on,
	// as far as RecoverySpan goes, and not beyond the next fault, if there was a confirm before that:
	// what that one stops is not this one's.
	Pause time.Duration
}

// RecoverySpan is how long after a fault its pauses are looked for.
const RecoverySpan = 5 * time.Second

// recoveries returns one for each fault.
func recoveries(events []history.Event) []Recovery {
	var out []Recovery
	for i := range events {
		if events[i].Kind == history.Fault {
			out = append(out, recovery(events, i))
		}
	}
	return out
}

// recovery finds the first confirm of a message that was published after the fault, and
// the longest pause. A pause counts for publishers that had a confirm within a second
// before the fault and have one after it.
func recovery(events []history.Event, fault int) Recovery {
	r := Recovery{Fault: events[fault], Confirm: -1}
	at := r.Fault.At
	last := map[int]time.Duration{}
	for _, e := range events[:fault] {
		if e.Kind == history.Confirmed && e.At > at-time.Second {
			last[e.Publisher] = at
		}
	}
	for _, e := range events[fault+1:] {
		if e.Kind == history.Fault && r.Confirm >= 0 {
			for _, since := range last {
				if since < at+RecoverySpan {
					r.Pause = max(r.Pause, e.At-since)
				}
			}
			break
		}
		if e.Kind != history.Confirmed {
			continue
		}
		if r.Confirm < 0 && e.Sent >= at {
			r.Confirm = e.At - at
		}
		if since, seen := last[e.Publisher]; seen && since < at+RecoverySpan {
			r.Pause = max(r.Pause, e.At-since)
			last[e.Publisher] = e.At
		}
	}
	return r
}

// unfelt returns what is recorded of faults that were looked for and not felt.
func unfelt(events []history.Event) []history.Event {
	var out []history.Event
	for _, e := range events {
		if e.Kind == history.Bit && !e.Again {
			out = append(out, e)
		}
	}
	return out
}
