package chaos

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// valid returns a history in which all is well: message 1 acked, 2 discarded and
// buried, 3 redelivered after a fault, 4 refused, 5 of unknown outcome and not stored.
func valid() []Event {
	of := func(kind Kind, id uint64) Event { return Event{Kind: kind, Publisher: 1, ID: id, Queue: MainQueue} }
	events := []Event{
		of(Published, 1), of(Published, 2), of(Confirmed, 1), of(Confirmed, 2),
		of(Delivered, 1), of(Delivered, 2), of(Acked, 1), of(Discarded, 2), of(Buried, 2),
		{Kind: Fault, Node: "n1", Note: "kill"},
		of(Published, 3), of(Delivered, 3), of(Published, 4), of(Published, 5),
		of(Confirmed, 3), of(Refused, 4), of(Unknown, 5),
		{Kind: Healed, Node: "n1"},
		{Kind: Delivered, Publisher: 1, ID: 3, Queue: MainQueue, Acquired: 1},
		of(Acked, 3),
		{Kind: Delivered, Publisher: 1, ID: 2, Queue: DeadQueue},
		{Kind: Drained, Queue: MainQueue},
		{Kind: Drained, Queue: DeadQueue},
	}
	for i := range events {
		events[i].At = time.Duration(i) * time.Millisecond
		if events[i].Kind == Confirmed && events[i].ID == 3 {
			events[i].Sent = 10 * time.Millisecond
		}
	}
	return events
}

func TestCheckValid(t *testing.T) {
	r := Check(valid())
	if r.Verdict != Valid {
		t.Fatal(r.String())
	}
	if len(r.Recoveries) != 1 || r.Recoveries[0].Confirm != 5*time.Millisecond {
		t.Errorf("recoveries %v", r.Recoveries)
	}
	if r.Confirmed != 3 || r.Redelivered != 1 || r.Buried != 1 {
		t.Error(r.String())
	}
}

// A checker that passes everything is worse than none: each way to spoil the valid
// history must be found, and by the list that is meant for it.
func TestCheckRejectsMutations(t *testing.T) {
	deliver := func(id uint64, queue string) Event {
		return Event{Kind: Delivered, Publisher: 1, ID: id, Queue: queue}
	}
	without := func(drop func(Event) bool) func([]Event) []Event {
		return func(e []Event) []Event { return slices.DeleteFunc(e, drop) }
	}
	with := func(at int, e Event) func([]Event) []Event {
		return func(events []Event) []Event { return slices.Insert(events, at, e) }
	}
	tests := map[string]struct {
		mutate func([]Event) []Event
		list   func(Report) []Message
	}{
		"confirmed and lost":     {without(func(e Event) bool { return e.Kind == Delivered && e.ID == 1 }), func(r Report) []Message { return r.Lost }},
		"never published":        {with(19, deliver(99, MainQueue)), func(r Report) []Message { return r.Unexpected }},
		"refused, yet delivered": {with(19, deliver(4, MainQueue)), func(r Report) []Message { return r.Unexpected }},
		"stored twice":           {with(6, deliver(1, MainQueue)), func(r Report) []Message { return r.Duplicates }},
		"back after its ack":     {with(19, Event{Kind: Delivered, Publisher: 1, ID: 1, Queue: MainQueue, Acquired: 1}), func(r Report) []Message { return r.Undead }},
		"back after its discard": {with(19, Event{Kind: Delivered, Publisher: 1, ID: 2, Queue: MainQueue, Acquired: 1}), func(r Report) []Message { return r.Undead }},
		"out of order": {func(e []Event) []Event {
			e[4].ID, e[5].ID = 2, 1
			return e
		}, func(r Report) []Message { return r.Disorder }},
		"dead letter lost":       {without(func(e Event) bool { return e.Queue == DeadQueue && e.Kind == Delivered }), func(r Report) []Message { return r.NotBuried }},
		"dead letter twice":      {with(20, deliver(2, DeadQueue)), func(r Report) []Message { return r.WronglyBuried }},
		"dead without a discard": {with(20, deliver(1, DeadQueue)), func(r Report) []Message { return r.WronglyBuried }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := Check(test.mutate(valid()))
			if r.Verdict != Invalid || len(test.list(r)) != 1 {
				t.Errorf("accepted, or in the wrong list:\n%s", r.String())
			}
		})
	}
}

func TestCheckUndecidable(t *testing.T) {
	for name, drop := range map[string]func(Event) bool{
		"not drained":       func(e Event) bool { return e.Kind == Drained },
		"nothing confirmed": func(e Event) bool { return e.Kind == Confirmed },
	} {
		if r := Check(slices.DeleteFunc(valid(), drop)); r.Verdict != Undecidable {
			t.Errorf("%s: %s", name, r.String())
		}
	}
}

func TestHistoryRoundTrip(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHistory(&b, valid()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadHistory(&b)
	if err != nil || !slices.Equal(got, valid()) {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestScheduleIsTheSeeds(t *testing.T) {
	a, b, c := Schedule(7, time.Minute), Schedule(7, time.Minute), Schedule(8, time.Minute)
	if !slices.Equal(a, b) || slices.Equal(a, c) || len(a) < 5 {
		t.Fatalf("schedules\n%v\n%v\n%v", a, b, c)
	}
}

// A publisher that got one confirm soon after the fault and then none for long shows in the
// pause, not in the first confirm.
func TestPauses(t *testing.T) {
	const ms = time.Millisecond
	events := []Event{
		{At: 10 * ms, Kind: Confirmed, Publisher: 1, Sent: 9 * ms},
		{At: 11 * ms, Kind: Confirmed, Publisher: 2, Sent: 9 * ms},
		{At: 20 * ms, Kind: Fault, Note: "kill"},
		{At: 50 * ms, Kind: Confirmed, Publisher: 1, Sent: 30 * ms},
		{At: 60 * ms, Kind: Confirmed, Publisher: 2, Sent: 31 * ms},
		{At: 70 * ms, Kind: Confirmed, Publisher: 3, Sent: 32 * ms}, // is new
		{At: 100 * ms, Kind: Confirmed, Publisher: 2, Sent: 90 * ms},
		{At: 4000 * ms, Kind: Confirmed, Publisher: 1, Sent: 51 * ms},
		{At: 9000 * ms, Kind: Confirmed, Publisher: 3, Sent: 80 * ms},
	}
	want := Recovery{Fault: events[2], Confirm: 30 * ms, Pause: 3950 * ms}
	if got := Check(events).Recoveries; len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What the next fault stops is not counted for the one before, but what that one has stopped
// until then is.
func TestPausesEndAtTheNextFault(t *testing.T) {
	const ms = time.Millisecond
	events := []Event{
		{At: 10 * ms, Kind: Confirmed, Publisher: 1, Sent: 9 * ms},
		{At: 11 * ms, Kind: Confirmed, Publisher: 2, Sent: 9 * ms},
		{At: 20 * ms, Kind: Fault, Note: "kill"},
		{At: 50 * ms, Kind: Confirmed, Publisher: 1, Sent: 30 * ms},
		{At: 4000 * ms, Kind: Confirmed, Publisher: 1, Sent: 3900 * ms},
		{At: 4040 * ms, Kind: Fault, Note: "pause"},
		{At: 6000 * ms, Kind: Confirmed, Publisher: 1, Sent: 5900 * ms},
		{At: 6001 * ms, Kind: Confirmed, Publisher: 2, Sent: 30 * ms},
	}
	got := Check(events).Recoveries
	if len(got) != 2 || got[0].Pause != 4020*ms || got[1].Pause != 1960*ms {
		t.Errorf("got %+v", got)
	}
}
