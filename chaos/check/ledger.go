package check

import (
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// place is a message in a queue. A message that is routed to two queues is two places.
type place struct {
	queue string
	history.Message
}

// fate is what a history has of a message in a queue, in the order in which it happened.
type fate struct {
	expected   bool // published to the queue by a client, not by dead-lettering
	published  int  // index of the first event; -1: none
	confirmed  int  // likewise
	refused    int
	unknown    bool
	deliveries []int // indexes of events
	deciding   []int
	decided    []int
}

// ledger is a history, put in order by message.
type ledger struct {
	events  []history.Event
	queues  map[string]*history.Queue
	drained map[string]bool
	deadOf  map[string][]string // dead-letter queue → its sources
	cycles  map[string][]string // queue → all that its dead letters may pass, if they may come back to it
	fates   map[place]*fate
	places  []place // in the order of their first event
	deleted map[string]bool
	asked   map[string]time.Duration // consumer → when its client began to ask for it, if that is known
	lost    map[string]time.Duration // consumer → when it was lost
	faults  []span
	counts  Counts
	// asNewOf are the deliveries of a queue that nobody had before, in their order.
	asNewOf    map[string][]int
	recoveries []Recovery
	settings   history.Settings
}

// read puts a history in order.
func read(events []history.Event) *ledger {
	l := &ledger{
		events: events, queues: map[string]*history.Queue{}, drained: map[string]bool{},
		deadOf: map[string][]string{}, fates: map[place]*fate{}, deleted: map[string]bool{},
		asked: map[string]time.Duration{}, lost: map[string]time.Duration{},
		faults: faultSpans(events), asNewOf: map[string][]int{}, recoveries: recoveries(events), settings: settingsOf(events),
	}
	targets := map[history.Message][]string{}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.Declared:
			l.queues[e.Queue] = e.Spec
			for _, to := range targetsOf(*e.Spec) {
				if !slices.Contains(l.deadOf[to], e.Queue) {
					l.deadOf[to] = append(l.deadOf[to], e.Queue)
				}
			}
		case history.Published:
			if !e.Resend {
				l.counts.Published++
				targets[e.Message()] = e.Queues
			}
			l.publication(targets, e, func(f *fate) { f.expected = true; f.published = first(f.published, i) })
		case history.Confirmed:
			l.counts.Confirmed++
			l.publication(targets, e, func(f *fate) { f.confirmed = first(f.confirmed, i) })
		case history.Refused:
			l.counts.Refused++
			l.publication(targets, e, func(f *fate) { f.refused = first(f.refused, i) })
		case history.Unknown:
			l.counts.Unknown++
			l.publication(targets, e, func(f *fate) { f.unknown = true })
		case history.Delivered:
			l.delivered(i)
		case history.Deciding:
			f := l.fate(place{e.Queue, e.Message()})
			f.deciding = append(f.deciding, i)
		case history.Decided:
			f := l.fate(place{e.Queue, e.Message()})
			f.decided = append(f.decided, i)
		case history.Deleted:
			l.deleted[e.Queue] = true
		case history.Opened:
			l.asked[e.Consumer] = e.Sent
		case history.Lost:
			l.lost[e.Consumer] = e.At
		case history.Drained:
			l.drained[e.Queue] = true
		case history.Fault:
			l.counts.Faults++
		default:
		}
	}
	l.cycles = cyclesOf(l.queues)
	return l
}

// first keeps the first of two indexes; -1 stands for no index.
func first(have, i int) int {
	if have >= 0 {
		return have
	}
	return i
}

// publication calls f for the message in each queue that it was published to.
func (l *ledger) publication(targets map[history.Message][]string, e *history.Event, f func(*fate)) {
	for _, q := range targets[e.Message()] {
		f(l.fate(place{q, e.Message()}))
	}
}

func (l *ledger) delivered(i int) {
	e := &l.events[i]
	f := l.fate(place{e.Queue, e.Message()})
	if len(f.deliveries) == 0 {
		l.counts.Delivered++
		if len(l.deadOf[e.Queue]) > 0 && !f.expected {
			l.counts.DeadLetters++
		}
	} else {
		l.counts.Redelivered++
	}
	f.deliveries = append(f.deliveries, i)
	if e.Acquired == 0 {
		l.asNewOf[e.Queue] = append(l.asNewOf[e.Queue], i)
	}
}

// fate returns what is known of a message in a queue.
func (l *ledger) fate(p place) *fate {
	f := l.fates[p]
	if f == nil {
		f = &fate{published: -1, confirmed: -1, refused: -1}
		l.fates[p] = f
		l.places = append(l.places, p)
	}
	return f
}

// targetsOf returns the queues that dead letters of a queue reach.
func targetsOf(q history.Queue) []string {
	if q.DeadTo == "" {
		return nil
	}
	return append([]string{q.DeadTo}, q.DeadFan...)
}

// passed reports whether the message was in the queue, as far as the history shows, or may have
// passed through it unseen: its dead letters come from a queue that it was in.
func (l *ledger) passed(p place) bool {
	seen := map[string]bool{}
	var in func(string) bool
	in = func(queue string) bool {
		if seen[queue] {
			return false
		}
		seen[queue] = true
		return l.fates[place{queue, p.Message}] != nil || slices.ContainsFunc(l.deadOf[queue], in)
	}
	return in(p.queue)
}

// spec returns what was declared of a queue, or that nothing is known.
func (l *ledger) spec(queue string) history.Queue {
	if q := l.queues[queue]; q != nil {
		return *q
	}
	return history.Queue{DeliveryLimit: -1}
}

// asNew counts the deliveries that nobody had before.
func (l *ledger) asNew(f *fate) int {
	n := 0
	for _, i := range f.deliveries {
		if l.events[i].Acquired == 0 {
			n++
		}
	}
	return n
}

// settled reports whether a consumer began to settle the message for good (Ack, Discard).
func (l *ledger) settled(f *fate, with history.Outcome) bool {
	return slices.ContainsFunc(f.deciding, func(i int) bool { return l.events[i].Outcome == with })
}
