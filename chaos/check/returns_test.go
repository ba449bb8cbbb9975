package check

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

const backFirst = "returned messages come first"

// given is the queue of the histories in TestReturns; its consumer c may hold two messages.
const given = "given"

// comes is a delivery to a consumer.
func comes(when time.Duration, id uint64, to string, acquired uint32) history.Event {
	return at(when, delivered(id, given, to, acquired, 0))
}

// begins and ends are the beginning of a settlement, and its commit.
func begins(when time.Duration, id uint64, o history.Outcome) history.Event {
	return at(when, settled(history.Deciding, id, given, "c", o))
}

func ends(when time.Duration, id uint64, o history.Outcome) history.Event {
	return at(when, settled(history.Decided, id, given, "c", o))
}

// returning is a history in which six messages wait, and all is well: 1 is given back and comes again before 3, which
// nobody had. 4 and 5 are given back, and come again in this order, before 6.
func returning() []history.Event {
	out := []history.Event{
		{Kind: history.Declared, Queue: given, Spec: &history.Queue{DeliveryLimit: -1}},
		at(1*ms, history.Event{Kind: history.Opened, Queue: given, Consumer: "c", Prefetch: 2}),
	}
	for id := range uint64(6) {
		out = append(out, at(1*ms, published(id+1, given)), at(2*ms, answered(history.Confirmed, id+1)))
	}
	return append(out,
		comes(3*ms, 1, "c", 0), comes(3*ms, 2, "c", 0),
		begins(10*ms, 1, history.Return), ends(12*ms, 1, history.Return), comes(12*ms, 1, "c", 1),
		begins(20*ms, 2, history.Ack), ends(22*ms, 2, history.Ack), comes(22*ms, 3, "c", 0),
		begins(30*ms, 1, history.Ack), ends(32*ms, 1, history.Ack), comes(32*ms, 4, "c", 0),
		begins(40*ms, 3, history.Ack), ends(42*ms, 3, history.Ack), comes(42*ms, 5, "c", 0),
		begins(50*ms, 4, history.Requeue), ends(52*ms, 4, history.Requeue), comes(52*ms, 4, "c", 1),
		begins(60*ms, 5, history.Requeue), ends(62*ms, 5, history.Requeue), comes(62*ms, 5, "c", 1),
		begins(70*ms, 4, history.Ack), ends(72*ms, 4, history.Ack), comes(72*ms, 6, "c", 0),
		begins(80*ms, 5, history.Ack), begins(80*ms, 6, history.Ack), ends(82*ms, 5, history.Ack), ends(82*ms, 6, history.Ack),
		at(99*ms, history.Event{Kind: history.Drained, Queue: given}),
	)
}

// late puts the delivery of what c had given back to a later time.
func late(id uint64, to time.Duration) mutation {
	return func(events []history.Event) []history.Event {
		i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Delivered && e.ID == id && e.Acquired > 0 })
		events[i].At = to
		return with()(events)
	}
}

// behindOthers lets 1 come only after 3, 4 and 5, and stay with its consumer.
func behindOthers(events []history.Event) []history.Event {
	return late(1, 43*ms)(without(func(e history.Event) bool { return e.ID == 1 && e.Outcome == history.Ack })(events))
}

// What was given back comes first, wherever a history shows that it could have. What others had meanwhile, or what was
// chosen before the return was committed, shows nothing.
func TestReturns(t *testing.T) {
	committed := func(e history.Event) bool { return e.Kind == history.Decided && e.ID == 1 }
	for name, test := range map[string]struct {
		mutate          mutation
		checked, broken int
	}{
		"all is well":                      {with(), 3, 0},
		"behind what nobody had":           {behindOthers, 3, 1},
		"behind all others":                {late(4, 73*ms), 3, 1},
		"behind what was given back later": {late(4, 63*ms), 3, 1},
		"chosen before the commit": {func(events []history.Event) []history.Event {
			events = behindOthers(events)
			events[slices.IndexFunc(events, committed)].At = 41 * ms
			return with()(events)
		}, 3, 0},
		"no commit was seen": {func(events []history.Event) []history.Event { return without(committed)(behindOthers(events)) }, 2, 0},
		"another consumer had it meanwhile": {func(events []history.Event) []history.Event {
			events = behindOthers(events)
			for i := range events {
				if e := &events[i]; e.Kind == history.Delivered && e.ID == 1 && e.Acquired == 1 {
					e.Acquired = 2
				}
			}
			return with(comes(13*ms, 1, "d", 1))(events)
		}, 2, 0},
		"its consumer was lost": {func(events []history.Event) []history.Event {
			events = behindOthers(events)
			for i := range events {
				if e := &events[i]; e.At > 12*ms && e.Consumer == "c" {
					e.Consumer = "e"
				}
			}
			return with(
				at(12*ms, history.Event{Kind: history.Lost, Queue: given, Consumer: "c"}),
				at(12*ms, history.Event{Kind: history.Opened, Queue: given, Consumer: "e", Prefetch: 2}),
			)(events)
		}, 2, 0},
		"a consumer of unknown prefetch": {func(events []history.Event) []history.Event {
			events = behindOthers(events)
			events[slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Opened })].Prefetch = 0
			return events
		}, 0, 0},
		"a queue among which messages are moved": {func(events []history.Event) []history.Event {
			events[0].Spec.Moved = true
			return behindOthers(events)
		}, 0, 0},
		"a queue to which dead letters come back": {func(events []history.Event) []history.Event {
			events[0].Spec.DeadTo = given
			return behindOthers(events)
		}, 0, 0},
	} {
		if g := returnedFirst(read(test.mutate(returning()))); g.Checked != test.checked || len(g.Broken) != test.broken {
			t.Errorf("%s: checked %d, broken %v; want %d and %d", name, g.Checked, g.Broken, test.checked, test.broken)
		}
	}
	if r := Check(returning()); r.Verdict != Valid {
		t.Error(r.String())
	}
}
