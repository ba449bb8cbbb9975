package check

import (
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// group are faults of which each began before the ones before it were healed. What they do to
// clients cannot be distinguished.
type group struct {
	faults     []int         // indexes of events
	from, heal time.Duration // when the first began and the last was healed
	open       bool          // one was not healed
}

// groups returns the faults of a history that lasted at the same time, in order.
func groups(events []history.Event) []group {
	heals := map[int]time.Duration{}
	for i := range events {
		if e := &events[i]; e.Kind == history.Healed {
			heals[e.Fault] = e.At
		}
	}
	var out []group
	for i := range events {
		e := &events[i]
		if e.Kind != history.Fault {
			continue
		}
		heal, healed := heals[e.Fault]
		if n := len(out) - 1; n >= 0 && (out[n].open || e.At < out[n].heal) {
			g := &out[n]
			g.faults, g.heal, g.open = append(g.faults, i), max(g.heal, heal), g.open || !healed
			continue
		}
		out = append(out, group{faults: []int{i}, from: e.At, heal: heal, open: !healed})
	}
	return out
}

// since returns the index of the first event at this time or later.
func since(events []history.Event, at time.Duration) int {
	i, _ := slices.BinarySearchFunc(events, at, func(e history.Event, at time.Duration) int { return int(e.At - at) })
	return i
}

// idleAfter reports by the index of each confirm whether its publisher then waited for nothing more: what
// comes until it publishes again is no pause.
func idleAfter(events []history.Event) []bool {
	out := make([]bool, len(events))
	open := map[int]map[uint64]bool{} // what publishers wait for
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.Published:
			if open[e.Publisher] == nil {
				open[e.Publisher] = map[uint64]bool{}
			}
			open[e.Publisher][e.ID] = true
		case history.Confirmed:
			delete(open[e.Publisher], e.ID)
			out[i] = open[e.Publisher] != nil && len(open[e.Publisher]) == 0
		case history.Refused, history.Unknown:
			delete(open[e.Publisher], e.ID)
		default:
		}
	}
	return out
}

// livelyWithin is how shortly before a fault a publisher must have got a confirm for its pause to count: a publisher
// that waits already shows nothing about the fault.
const livelyWithin = 250 * time.Millisecond

// waiting is a publisher whose next confirm is waited for.
type waiting struct {
	class       string
	idle        bool          // it waits for nothing
	since, last time.Duration // of its confirm, and of anything that it did
}

// lively returns the publishers that were confirmed something shortly before a time, as they are
// then.
func lively(events []history.Event, idle []bool, before time.Duration) map[int]*waiting {
	out := map[int]*waiting{}
	for i := since(events, before-livelyWithin); i < len(events) && events[i].At <= before; i++ {
		e := &events[i]
		if e.Kind == history.Confirmed {
			out[e.Publisher] = &waiting{class: e.Client, idle: idle[i], since: before, last: before}
		} else if w := out[e.Publisher]; w != nil && e.Kind == history.Published {
			w.idle = false
		}
	}
	return out
}
