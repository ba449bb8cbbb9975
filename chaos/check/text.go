package check

import (
	"fmt"
	"strings"
	"time"
)

// examples bounds the breaches that a text names for each guarantee.
const examples = 5

// String returns the report in a few lines.
func (r *Report) String() string {
	var b strings.Builder
	c := r.Counts
	fmt.Fprintf(&b, "published %d, confirmed %d, refused %d, unknown %d, delivered %d (%d again), dead letters %d\n",
		c.Published, c.Confirmed, c.Refused, c.Unknown, c.Delivered, c.Redelivered, c.DeadLetters)
	for _, f := range r.Recoveries {
		fmt.Fprintf(&b, "first confirm %v, longest pause %v after %s %v at %v\n", f.Confirm.Round(time.Millisecond),
			f.Pause.Round(time.Millisecond), f.Fault.Note, f.Fault.Nodes, f.Fault.At.Round(time.Millisecond))
	}
	for _, e := range r.Unfelt {
		if e.Fault == 0 {
			fmt.Fprintf(&b, "workload %s: %s\n", e.Queue, e.Note)
			continue
		}
		fmt.Fprintf(&b, "fault %d of %v: %s\n", e.Fault, e.Nodes, e.Note)
	}
	for _, g := range r.Guarantees {
		if len(g.Broken) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s (%s): broken %d times\n", g.Name, g.Rule, len(g.Broken))
		for _, f := range g.Broken[:min(examples, len(g.Broken))] {
			fmt.Fprintf(&b, "  %v  %s  %s: %s\n", f.At.Round(time.Millisecond), f.Queue, f.Message, f.Why)
			for _, line := range f.Story {
				fmt.Fprintf(&b, "      %s\n", line)
			}
		}
	}
	fmt.Fprintf(&b, "history is %s", r.Verdict)
	if r.Why != "" {
		fmt.Fprintf(&b, ": %s", r.Why)
	}
	return b.String()
}
