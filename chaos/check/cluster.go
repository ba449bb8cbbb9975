package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// sameState: at the end all members of a group have the same state at the same index (G10).
func sameState(l *ledger) Guarantee {
	g := Guarantee{Name: "members have the same state", Rule: "G10"}
	last := map[string]map[string]int{} // group → node → index of its newest event
	var groups []string
	for i := range l.events {
		if e := &l.events[i]; e.Kind == history.Digest {
			if last[e.Queue] == nil {
				last[e.Queue] = map[string]int{}
				groups = append(groups, e.Queue)
			}
			last[e.Queue][e.Node] = i
		}
	}
	for _, q := range groups {
		byIndex := map[uint64]int{}
		for _, i := range last[q] {
			e := &l.events[i]
			other, is := byIndex[e.Index]
			if !is {
				byIndex[e.Index] = i
				continue
			}
			g.Checked++
			if o := &l.events[other]; o.Note != e.Note {
				g.Broken = append(g.Broken, Finding{At: e.At, Queue: q, Why: fmt.Sprintf("at index %d node %s has the state %s, node %s %s", e.Index, e.Node, e.Note, o.Node, o.Note)})
			}
		}
		if len(byIndex) > 1 {
			g.Missing = "members of " + q + " did not come to rest at one index"
		}
	}
	return g
}

// ledSoon is how soon after the faults were healed every queue has a leader, on a quiet machine.
const ledSoon = 5 * time.Second

// BusyFactor multiplies limits of time for a quiet machine where nothing else is said. It lets a machine that others use
// as well pass, and not a cluster that stands still.
const BusyFactor = 3

// busy returns a limit for a quiet machine, longer by the factor for pauses.
func (l *ledger) busy(limit time.Duration) time.Duration {
	factor := max(1, l.settings.MaxPause)
	if l.settings.MaxPause <= 0 {
		factor = BusyFactor
	}
	return time.Duration(float64(limit) * factor)
}

// ledAgain: after all faults are healed every queue has a leader within five seconds, or longer by
// the factor for pauses.
func ledAgain(l *ledger) Guarantee {
	g := Guarantee{Name: "every queue is led again", Rule: "G11"}
	healed, limit := time.Duration(-1), l.busy(ledSoon)
	for i := range l.events {
		switch e := &l.events[i]; e.Kind {
		case history.Healed:
			healed = e.At
		case history.Led:
			if healed < 0 {
				continue
			}
			g.Checked++
			if took := e.At - healed; took > limit {
				g.Broken = append(g.Broken, Finding{At: e.At, Why: fmt.Sprintf("%v after the last fault was healed; the limit is %v", rounded(took), rounded(limit))})
			}
			healed = -1
		default:
		}
	}
	return g
}

// A resource may grow by this factor, and by this much besides, from the beginning to the end.
const leakFactor = 1.25

// leakSlack returns how much more of a resource is no leak.
func leakSlack(name string) float64 {
	switch name {
	case "resident_bytes":
		return 128 << 20 // caches, and what the garbage collector has not given back
	case "disk_bytes":
		// A log takes up to three times what its queues keep, 4 MiB or 16 entries of each, before it is compacted;
		// entries of the workload with large messages have up to 8 MiB.
		return 640 << 20
	default: // goroutines, files
		return 64
	}
}

// Leaks returns which of a node's resources did not come back to what the nodes used before, in words and in
// order of their names: they may grow by a quarter, and by a slack for what is kept with reason. A node may use as
// much as the one that used most, since it may lead by now what that one led.
func Leaks(before map[string]map[string]float64, end map[string]float64) []string {
	begin := map[string]float64{}
	for _, figures := range before {
		for name, x := range figures {
			begin[name] = max(begin[name], x)
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(end)) {
		if from, is := begin[name]; is && end[name] > from*leakFactor+leakSlack(name) {
			out = append(out, fmt.Sprintf("%s went from %.0f to %.0f; up to %.0f is no leak", name, from, end[name], from*leakFactor+leakSlack(name)))
		}
	}
	return out
}

// noLeak: goroutines, open files, memory and disk come back to what they were, as soon as caches were full.
func noLeak(l *ledger) Guarantee {
	g := Guarantee{Name: "nothing leaks", Rule: "G11"}
	begin := map[string]map[string]float64{}
	for i := range l.events {
		e := &l.events[i]
		if e.Kind != history.Resources {
			continue
		}
		if begin[e.Node] == nil || e.Note == history.Warm {
			begin[e.Node] = e.Figures
			continue
		}
		g.Checked += len(e.Figures)
		for _, why := range Leaks(begin, e.Figures) {
			g.Broken = append(g.Broken, Finding{At: e.At, Why: "node " + e.Node + ": " + why})
		}
	}
	return g
}
