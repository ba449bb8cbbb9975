// Package check judges histories. The right outcome of each message follows from the
// history alone; each guarantee has a checker, and each checker has histories in its tests that it must reject.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// Verdict reports whether a history kept the guarantees.
type Verdict string

// The verdicts.
const (
	Valid   Verdict = "valid"
	Invalid Verdict = "invalid"
	// Undecidable: too little was seen, such as queues that were not drained, or nothing that was
	// confirmed.
	Undecidable Verdict = "unknown"
)

// Finding is one breach of a guarantee.
type Finding struct {
	At      time.Duration   `json:"at"` // the event that shows it
	Queue   string          `json:"queue,omitempty"`
	Message history.Message `json:"message"` // zero: of no message
	Why     string          `json:"why"`
	// Story is what the history has of the message, a line for each event; the first breaches of a guarantee have it.
	Story []string `json:"story,omitempty"`
}

// Guarantee is what one checker found.
type Guarantee struct {
	Name string `json:"name"`
	Rule string `json:"rule"` // ids of docs/semantics.md and docs/guarantees.md
	// Checked counts what was looked at: 0 says that the history has nothing that could break it.
	Checked int `json:"checked"`
	// Broken are the breaches, in the order of Queue and Message.
	Broken []Finding `json:"broken,omitempty"`
	// Missing is why nothing can be concluded, such as a queue that was not drained.
	Missing string `json:"missing,omitempty"`
}

// Counts are figures of a history.
type Counts struct {
	Published, Confirmed, Refused, Unknown int
	Delivered                              int // messages of a queue, not deliveries
	Redelivered                            int // deliveries of what was delivered before
	DeadLetters                            int // messages that were delivered from a dead-letter queue
	Faults                                 int
}

// Report is what Check found.
type Report struct {
	Verdict    Verdict     `json:"verdict"`
	Why        string      `json:"why,omitempty"` // of Undecidable
	Counts     Counts      `json:"counts"`
	Guarantees []Guarantee `json:"guarantees"`
	Recoveries []Recovery  `json:"recoveries,omitempty"`
	// Unfelt are the faults that nothing shows to have been felt, and the workloads that lacked what they need, as
	// history.Bit.
	Unfelt []history.Event `json:"unfelt,omitempty"`
}

// checkers returns all that look at a history's ledger.
func checkers() []func(*ledger) Guarantee {
	return []func(*ledger) Guarantee{
		noLoss, nothingInvented, storedOnce, settledStays, inOrder, caused, flagged, limited, onTime, comesSoon, deadLettersOnce, deathsCounted,
		handedOut, oneActive, highestFirst, returnedFirst, wholeTransactions, movedOnce, newQueue, inTime, registers,
		lengthsAddUp, sameState, ledAgain, goesOn, noLeak,
	}
}

// Check judges a history.
func Check(events []history.Event) Report {
	l := read(events)
	r := Report{Verdict: Valid, Counts: l.counts, Recoveries: l.recoveries, Unfelt: unfelt(events)}
	for _, c := range checkers() {
		g := c(l)
		slices.SortFunc(g.Broken, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Message.Publisher, b.Message.Publisher), cmp.Compare(a.Message.ID, b.Message.ID))
		})
		l.recount(&g)
		r.Guarantees = append(r.Guarantees, g)
	}
	r.conclude()
	return r
}

// conclude finds the verdict: a breach outweighs what could not be checked.
func (r *Report) conclude() {
	if r.Counts.Confirmed == 0 {
		r.Verdict, r.Why = Undecidable, "nothing was confirmed"
	}
	for _, g := range r.Guarantees {
		if len(g.Broken) > 0 {
			r.Verdict, r.Why = Invalid, ""
			return
		}
		if g.Missing != "" && r.Verdict == Valid {
			r.Verdict, r.Why = Undecidable, fmt.Sprintf("%s: %s", g.Name, g.Missing)
		}
	}
}
