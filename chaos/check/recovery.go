package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// Recovery is how publishers came through a fault.
type Recovery struct {
	Fault history.Event `json:"fault"`
	// Healed is when it was healed; negative: it was not.
	Healed time.Duration `json:"healed"`
	// Beside reports that another fault lasted at some time of this one, whose effects are not distinguished.
	Beside bool `json:"beside,omitempty"`
	// Bit is the evidence that it had an effect, Felt whether it had one; "": nothing was looked for.
	Bit  string `json:"bit,omitempty"`
	Felt bool   `json:"felt,omitempty"`
	// Confirm is how long after the fault the first message that was published after it was
	// confirmed; negative if none was.
	Confirm time.Duration `json:"confirm"`
	// Pause is the longest time without a confirm that any publisher saw from the fault on until
	// RecoverySpan after it was healed, and not beyond the next fault, if there was a confirm
	// before that: what that one stops is not this one's.
	Pause time.Duration `json:"pause"`
	// Clients has the same by class of client, in the order of their names.
	Clients []ClientRecovery `json:"clients,omitempty"`
}

// Lasted is how long after its beginning it was healed.
func (r Recovery) Lasted() time.Duration { return r.Healed - r.Fault.At }

// ClientRecovery is how the publishers of one class of clients came through a fault.
type ClientRecovery struct {
	Class          string        `json:"class"`
	Confirm, Pause time.Duration // as in Recovery
	// After is how long after all that lasted was healed the last of them was confirmed something;
	// negative: one never was.
	After time.Duration
	// Limit is for Pause, or for After where Healed is set; 0: none is judged.
	Limit  time.Duration `json:",omitempty"`
	Healed bool          `json:",omitempty"`
}

// RecoverySpan is how long after a fault was healed its pauses are looked for.
const RecoverySpan = 5 * time.Second

// givenUp is how long a pause is followed: a publisher that comes back later never did.
const givenUp = time.Minute

// recoveries returns one for each fault, in order.
func recoveries(events []history.Event) []Recovery {
	bits, settings, idle := map[int]*history.Event{}, settingsOf(events), idleAfter(events)
	heals, next := map[int]time.Duration{}, afterChange(events)
	for i := range events {
		switch e := &events[i]; e.Kind {
		case history.Bit:
			if e.Fault > 0 { // else it is a workload's
				bits[e.Fault] = e
			}
		case history.Healed:
			heals[e.Fault] = e.At
		default:
		}
	}
	var out []Recovery
	for _, g := range groups(events) {
		after := g.after(events, idle, healedLimit(settings))
		for _, i := range g.faults {
			r := recovery(events, idle, i, g)
			r.Healed, r.Fault.Short = -1, r.Fault.Short || next[i]
			if at, healed := heals[r.Fault.Fault]; healed && r.Fault.Fault > 0 {
				r.Healed = at
			}
			if b := bits[r.Fault.Fault]; b != nil {
				r.Bit, r.Felt = b.Note, b.Again
			}
			for j := range r.Clients {
				c := &r.Clients[j]
				c.After = after[c.Class]
				c.Limit, c.Healed = limitOf(settings, &r, c.Class)
			}
			out = append(out, r)
		}
	}
	return out
}

// afterChange returns the faults, by index, that come next after one within a change of members. The change continues
// even after a queue was seen with all its members, so the queue may lack one when the next fault hits another.
func afterChange(events []history.Event) map[int]bool {
	next, change := map[int]bool{}, false
	for i := range events {
		if e := &events[i]; e.Kind == history.Fault {
			next[i], change = change, e.Class == MembersChange
		}
	}
	return next
}

// recovery finds the first confirm of a message that was published after the fault, and
// the longest pause.
func recovery(events []history.Event, idle []bool, fault int, g group) Recovery {
	r := Recovery{Fault: events[fault], Confirm: -1, Beside: len(g.faults) > 1}
	begin, end := r.Fault.At, g.heal+RecoverySpan
	if g.open {
		end = events[len(events)-1].At
	}
	clients := map[string]*ClientRecovery{}
	waits := lively(events, idle, begin)
	for _, w := range waits {
		clients[w.class] = &ClientRecovery{Class: w.class, Confirm: -1}
	}
	pause := func(w *waiting, until time.Duration) {
		if c := clients[w.class]; w.since < end && !w.idle {
			c.Pause = max(c.Pause, until-w.since)
		}
	}
	over := false // nothing later is this fault's
	for i := fault + 1; i < len(events) && !over; i++ {
		e := &events[i]
		switch w := waits[e.Publisher]; {
		case e.Kind == history.Fault && r.Confirm >= 0:
			for _, w := range waits {
				pause(w, e.At)
			}
			waits, over = nil, true
		case e.Kind == history.Confirmed:
			if r.Confirm < 0 && e.Sent >= begin {
				r.Confirm = e.At - begin
			}
			if w != nil {
				if c := clients[w.class]; c.Confirm < 0 && e.Sent >= begin {
					c.Confirm = e.At - begin
				}
				pause(w, e.At)
				if w.since, w.last, w.idle = e.At, e.At, idle[i]; e.At > end {
					delete(waits, e.Publisher)
				}
			}
		case w != nil && (e.Kind == history.Published || e.Kind == history.Unknown || e.Kind == history.Refused):
			if w.last = e.At; w.idle && e.Kind == history.Published {
				w.idle, w.since = false, e.At
			}
		}
		over = over || e.At > end && (len(waits) == 0 || e.At > end+givenUp)
	}
	for _, w := range waits { // never confirmed again
		pause(w, w.last)
	}
	for _, class := range slices.Sorted(maps.Keys(clients)) {
		r.Pause = max(r.Pause, clients[class].Pause)
		r.Clients = append(r.Clients, *clients[class])
	}
	return r
}

// after returns by class of client how long after the healing its last publisher was confirmed
// something again; negative: one was not for longer than the limit, though it went on to publish.
// Publishers that wait for nothing when the next fault begins went on: what they publish then is
// that one's.
func (g group) after(events []history.Event, idle []bool, limit time.Duration) map[string]time.Duration {
	waits, out := lively(events, idle, g.from), map[string]time.Duration{}
	if g.open {
		return out
	}
	tried := map[int]string{} // published, or waited, beyond the limit, and not confirmed
	for i := since(events, g.from); i < len(events) && len(waits) > 0 && events[i].At < g.heal+givenUp; i++ {
		e := &events[i]
		healed := e.At >= g.heal
		if healed && e.Kind == history.Fault {
			maps.DeleteFunc(waits, func(_ int, w *waiting) bool { return w.idle })
		}
		w := waits[e.Publisher]
		switch {
		case w == nil:
		case e.Kind == history.Confirmed && !healed:
			w.idle, w.since = idle[i], e.At
		case e.Kind == history.Confirmed:
			out[w.class] = max(out[w.class], e.At-max(g.heal, w.since))
			delete(waits, e.Publisher)
			delete(tried, e.Publisher)
		case e.Kind == history.Published || e.Kind == history.Unknown:
			if w.idle && e.Kind == history.Published {
				w.idle, w.since = false, e.At
			}
			if e.At > max(g.heal, w.since)+limit {
				tried[e.Publisher] = w.class
			}
		}
	}
	for _, class := range tried {
		out[class] = -1
	}
	return out
}

// settingsOf returns the settings of the run; zero if the history has none.
func settingsOf(events []history.Event) history.Settings {
	if len(events) > 0 && events[0].Kind == history.Began && events[0].Settings != nil {
		return *events[0].Settings
	}
	return history.Settings{}
}

// unfelt returns what is recorded of faults, and of what workloads need, that was looked for and not found.
func unfelt(events []history.Event) []history.Event {
	var out []history.Event
	for _, e := range events {
		if e.Kind == history.Bit && !e.Again {
			out = append(out, e)
		}
	}
	return out
}

// Classes returns the classes of clients in recoveries, in order.
func Classes(of []Recovery) []string {
	var out []string
	for _, r := range of {
		for _, c := range r.Clients {
			if i, is := slices.BinarySearchFunc(out, c.Class, cmp.Compare[string]); !is {
				out = slices.Insert(out, i, c.Class)
			}
		}
	}
	return out
}
