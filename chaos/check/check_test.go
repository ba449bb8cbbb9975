package check

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

const (
	mainQueue = "main"
	deadQueue = "dead"
)

// valid returns a history in which all is well: message 1 acked, 2 discarded and
// dead-lettered, 3 redelivered after a fault, 4 refused, 5 of unknown outcome and not stored.
func valid() []history.Event {
	of := func(kind history.Kind, id uint64) history.Event {
		e := history.Event{Kind: kind, Publisher: 1, ID: id, Queue: mainQueue}
		if kind == history.Published {
			e.Queue, e.Queues = "", []string{mainQueue}
		}
		return e
	}
	settle := func(kind history.Kind, id uint64, o history.Outcome) history.Event {
		e := of(kind, id)
		e.Outcome = o
		return e
	}
	const ack, discard = history.Ack, history.Discard
	events := []history.Event{
		{Kind: history.Declared, Queue: mainQueue, Spec: &history.Queue{DeadTo: deadQueue, DeliveryLimit: -1, Ordered: true}},
		{Kind: history.Declared, Queue: deadQueue, Spec: &history.Queue{DeliveryLimit: -1}},
		of(history.Published, 1), of(history.Published, 2), of(history.Confirmed, 1), of(history.Confirmed, 2),
		of(history.Delivered, 1), of(history.Delivered, 2), settle(history.Deciding, 1, ack), settle(history.Decided, 1, ack),
		settle(history.Deciding, 2, discard), settle(history.Decided, 2, discard),
		{Kind: history.Fault, Fault: 1, Nodes: []string{"n1"}, Note: "kill"},
		of(history.Published, 3), of(history.Delivered, 3), of(history.Published, 4), of(history.Published, 5),
		of(history.Confirmed, 3), of(history.Refused, 4), of(history.Unknown, 5),
		{Kind: history.Healed, Fault: 1, Nodes: []string{"n1"}},
		{Kind: history.Delivered, Publisher: 1, ID: 3, Queue: mainQueue, Acquired: 1},
		settle(history.Deciding, 3, ack), settle(history.Decided, 3, ack),
		{Kind: history.Delivered, Publisher: 1, ID: 2, Queue: deadQueue, Deaths: []history.Death{{Queue: mainQueue, Reason: "rejected", Count: 1}}},
		{Kind: history.Drained, Queue: mainQueue},
		{Kind: history.Drained, Queue: deadQueue},
	}
	for i := range events {
		events[i].At = time.Duration(i) * time.Millisecond
	}
	events[17].Sent = 13 * time.Millisecond
	return events
}

func TestValid(t *testing.T) {
	r := Check(valid())
	if r.Verdict != Valid {
		t.Fatal(r.String())
	}
	if len(r.Recoveries) != 1 || r.Recoveries[0].Confirm != 5*time.Millisecond {
		t.Errorf("recoveries %v", r.Recoveries)
	}
	want := Counts{Published: 5, Confirmed: 3, Refused: 1, Unknown: 1, Delivered: 4, Redelivered: 1, DeadLetters: 1, Faults: 1}
	if r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
}

// A checker that passes everything is worse than none: each way to spoil the valid history
// must be found, and by the checker of the guarantee that it breaks alone.
func TestRejects(t *testing.T) {
	deliver := func(id uint64, queue string, acquired uint32) history.Event {
		return history.Event{Kind: history.Delivered, Publisher: 1, ID: id, Queue: queue, Acquired: acquired}
	}
	without := func(drop func(history.Event) bool) func([]history.Event) []history.Event {
		return func(e []history.Event) []history.Event { return slices.DeleteFunc(e, drop) }
	}
	late := func(e history.Event) func([]history.Event) []history.Event {
		return func(events []history.Event) []history.Event {
			e.At = events[len(events)-3].At
			return slices.Insert(events, len(events)-2, e)
		}
	}
	const (
		loss, invented, twice = "no confirmed message is lost", "nothing is invented", "nothing is stored twice"
		stays, order, letters = "what is settled stays settled", "each publisher's order holds", "dead letters arrive exactly once"
	)
	tests := map[string]struct {
		mutate func([]history.Event) []history.Event
		breaks []string
	}{
		"confirmed and lost": {without(func(e history.Event) bool {
			return e.ID == 1 && (e.Kind == history.Delivered || e.Kind == history.Deciding || e.Kind == history.Decided)
		}), []string{loss}},
		"never published":        {late(deliver(99, mainQueue, 0)), []string{invented}},
		"refused, yet delivered": {late(deliver(4, mainQueue, 0)), []string{invented}},
		"stored twice": {func(events []history.Event) []history.Event {
			return slices.Insert(events, 7, deliver(1, mainQueue, 0))
		}, []string{twice}},
		"back after its ack":     {late(deliver(1, mainQueue, 1)), []string{stays}},
		"back after its discard": {late(deliver(2, mainQueue, 1)), []string{stays}},
		"out of order": {func(events []history.Event) []history.Event {
			events[6].ID, events[7].ID = 2, 1
			return events
		}, []string{order}},
		"dead letter lost": {without(func(e history.Event) bool {
			return e.Queue == deadQueue && e.Kind == history.Delivered
		}), []string{letters}},
		"dead letter twice":      {late(deliver(2, deadQueue, 0)), []string{letters}},
		"dead without a discard": {late(deliver(1, deadQueue, 0)), []string{letters}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := Check(test.mutate(valid()))
			var broken []string
			for _, g := range r.Guarantees {
				if len(g.Broken) > 0 {
					broken = append(broken, g.Name)
				}
			}
			if r.Verdict != Invalid || !slices.Equal(broken, test.breaks) {
				t.Errorf("breaks %q, want %q:\n%s", broken, test.breaks, r.String())
			}
		})
	}
}

func TestUndecidable(t *testing.T) {
	for name, drop := range map[string]func(history.Event) bool{
		"not drained":       func(e history.Event) bool { return e.Kind == history.Drained },
		"nothing confirmed": func(e history.Event) bool { return e.Kind == history.Confirmed },
	} {
		if r := Check(slices.DeleteFunc(valid(), drop)); r.Verdict != Undecidable {
			t.Errorf("%s: %s", name, r.String())
		}
	}
}
