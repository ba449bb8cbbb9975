package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Names of the queues of a history.
const (
	MainQueue = "main"
	DeadQueue = "dead"
)

// Verdict reports whether a history kept the promises.
type Verdict string

// The verdicts.
const (
	Valid       Verdict = "valid"
	Invalid     Verdict = "invalid"
	Undecidable Verdict = "unknown" // too little was seen: queues not drained, or nothing confirmed
)

// Message names a message of a history.
type Message struct {
	Publisher int
	ID        uint64
}

func (m Message) String() string { return fmt.Sprintf("%d/%d", m.Publisher, m.ID) }

// Recovery is how publishers came through a fault.
type Recovery struct {
	Fault Event
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

// Report is what Check found. Lists are sorted; each entry is a broken promise.
type Report struct {
	Verdict     Verdict
	Why         string // of Undecidable
	Published   int
	Confirmed   int
	Refused     int
	Unknown     int
	Delivered   int // messages, not deliveries
	Redelivered int
	Buried      int

	Lost          []Message // confirmed, never delivered
	Unexpected    []Message // delivered, but never published or refused for good
	Duplicates    []Message // delivered as new more than once
	Undead        []Message // delivered after its ack or discard was committed
	Disorder      []Message // delivered as new after a later one of its publisher
	NotBuried     []Message // discard committed, not in the dead-letter queue
	WronglyBuried []Message // in the dead-letter queue twice, or never discarded

	Recoveries []Recovery
}

// track is what is known about a message.
type track struct {
	published, confirmed, refused, unknown bool
	mainNew, deadNew                       int // deliveries as new
	mainAny, deadAny                       int
	acked, discarded, buried, undead       bool
}

// Check judges a history.
func Check(events []Event) Report {
	var r Report
	tracks := map[Message]*track{}
	newest := map[string]map[int]uint64{MainQueue: {}}
	drained := map[string]bool{}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case Fault:
			r.Recoveries = append(r.Recoveries, recovery(events, i))
			continue
		case Healed:
			continue
		case Drained:
			drained[e.Queue] = true
			continue
		default:
		}
		m := Message{e.Publisher, e.ID}
		t := tracks[m]
		if t == nil {
			t = &track{}
			tracks[m] = t
		}
		t.add(e)
		if e.Kind == Delivered && e.Acquired == 0 && e.Queue == MainQueue {
			if e.ID < newest[e.Queue][e.Publisher] {
				r.Disorder = append(r.Disorder, m)
			}
			newest[e.Queue][e.Publisher] = max(newest[e.Queue][e.Publisher], e.ID)
		}
	}
	for m, t := range tracks {
		r.count(t)
		r.judge(m, t)
	}
	r.conclude(drained)
	return r
}

func (t *track) add(e *Event) {
	switch e.Kind {
	case Published:
		t.published = true
	case Confirmed:
		t.confirmed = true
	case Refused:
		t.refused = true
	case Unknown:
		t.unknown = true
	case Acked:
		t.acked = true
	case Discarded:
		t.discarded = true
	case Buried:
		t.buried = true
	case Delivered:
		first := 0
		if e.Acquired == 0 {
			first = 1
		}
		if e.Queue == DeadQueue {
			t.deadAny, t.deadNew = t.deadAny+1, t.deadNew+first
			return
		}
		t.mainAny, t.mainNew = t.mainAny+1, t.mainNew+first
		t.undead = t.undead || t.acked || t.buried
	default: // not about a message
	}
}

func (r *Report) count(t *track) {
	for n, is := range map[*int]bool{
		&r.Published: t.published, &r.Confirmed: t.confirmed, &r.Refused: t.refused, &r.Unknown: t.unknown,
		&r.Delivered: t.mainAny > 0, &r.Buried: t.deadAny > 0,
	} {
		if is {
			*n++
		}
	}
	r.Redelivered += t.mainAny - t.mainNew
}

func (r *Report) judge(m Message, t *track) {
	for list, broken := range map[*[]Message]bool{
		&r.Lost:          t.confirmed && t.mainAny == 0,
		&r.Unexpected:    t.mainAny > 0 && (!t.published || t.refused),
		&r.Duplicates:    t.mainNew > 1,
		&r.Undead:        t.undead,
		&r.NotBuried:     t.buried && t.deadAny == 0,
		&r.WronglyBuried: t.deadNew > 1 || (t.deadAny > 0 && !t.discarded),
	} {
		if broken {
			*list = append(*list, m)
		}
	}
}

func (r *Report) broken() map[string][]Message {
	return map[string][]Message{
		"lost": r.Lost, "unexpected": r.Unexpected, "duplicates": r.Duplicates, "undead": r.Undead,
		"out of order": r.Disorder, "not dead-lettered": r.NotBuried, "wrongly dead-lettered": r.WronglyBuried,
	}
}

// conclude sorts the lists and finds the verdict. What is missing proves nothing when
// the queues were not drained; all else is broken either way.
func (r *Report) conclude(drained map[string]bool) {
	r.Verdict = Valid
	for name, list := range r.broken() {
		slices.SortFunc(list, func(a, b Message) int {
			return cmp.Or(cmp.Compare(a.Publisher, b.Publisher), cmp.Compare(a.ID, b.ID))
		})
		missing := name == "lost" && !drained[MainQueue] || name == "not dead-lettered" && !drained[DeadQueue]
		if len(list) > 0 && !missing {
			r.Verdict = Invalid
		}
	}
	if r.Verdict == Invalid {
		return
	}
	switch {
	case r.Confirmed == 0:
		r.Verdict, r.Why = Undecidable, "nothing was confirmed"
	case !drained[MainQueue]:
		r.Verdict, r.Why = Undecidable, "the queue was not drained"
	case r.Buried > 0 && !drained[DeadQueue]:
		r.Verdict, r.Why = Undecidable, "the dead-letter queue was not drained"
	}
}

// recovery finds the first confirm of a message that was published after the fault, and
// the longest pause. A pause counts for publishers that had a confirm within a second
// before the fault and have one after it.
func recovery(events []Event, fault int) Recovery {
	r := Recovery{Fault: events[fault], Confirm: -1}
	at := r.Fault.At
	last := map[int]time.Duration{}
	for _, e := range events[:fault] {
		if e.Kind == Confirmed && e.At > at-time.Second {
			last[e.Publisher] = at
		}
	}
	for _, e := range events[fault+1:] {
		if e.Kind == Fault && r.Confirm >= 0 {
			for _, since := range last {
				if since < at+RecoverySpan {
					r.Pause = max(r.Pause, e.At-since)
				}
			}
			break
		}
		if e.Kind != Confirmed {
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

// String returns the report in a few lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "published %d, confirmed %d, refused %d, unknown %d, delivered %d (%d again), dead letters %d\n",
		r.Published, r.Confirmed, r.Refused, r.Unknown, r.Delivered, r.Redelivered, r.Buried)
	for _, f := range r.Recoveries {
		fmt.Fprintf(&b, "first confirm %v, longest pause %v after %s of %s at %v\n", f.Confirm.Round(time.Millisecond),
			f.Pause.Round(time.Millisecond), f.Fault.Note, f.Fault.Node, f.Fault.At.Round(time.Millisecond))
	}
	lists := r.broken()
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range lists {
			if !yield(n) {
				return
			}
		}
	}) {
		if list := lists[name]; len(list) > 0 {
			fmt.Fprintf(&b, "%s: %d, for example %v\n", name, len(list), list[:min(5, len(list))])
		}
	}
	fmt.Fprintf(&b, "history is %s", r.Verdict)
	if r.Why != "" {
		fmt.Fprintf(&b, ": %s", r.Why)
	}
	return b.String()
}
