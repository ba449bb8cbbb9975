package check

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// Queues of a cycle: what is discarded from the first one expires in the second, and comes back.
const loopWork, loopWait = "loop.work", "loop.wait"

const deathCounts = "deaths are counted"

// died makes a delivery carry deaths of both queues of the cycle.
func died(expired, rejected uint64, e history.Event) history.Event {
	e.Deaths = []history.Death{{Queue: loopWait, Reason: "expired", Count: expired}, {Queue: loopWork, Reason: "rejected", Count: rejected}}
	return e
}

// validCycle returns a history in which all is well: 1 is discarded twice and acked, 2 acked. 3 is discarded without a
// commit that anybody sees; when it has come back its consumer is lost. 4 is discarded without an effect, since
// its consumer is lost, and again. 5 is read first by a consumer that was lost long before, when it has died.
func validCycle() []history.Event {
	const s = time.Second
	begins := func(when time.Duration, id uint64, by string, o history.Outcome) []history.Event {
		return []history.Event{at(when, settled(history.Deciding, id, loopWork, by, o))}
	}
	lost := func(when time.Duration, consumer string) []history.Event {
		return []history.Event{at(when, history.Event{Kind: history.Lost, Queue: loopWork, Consumer: consumer})}
	}
	comes := func(when time.Duration, id uint64, to string, acquired uint32, deaths uint64) []history.Event {
		e := at(when, delivered(id, loopWork, to, acquired, 0))
		if deaths > 0 {
			e = died(deaths, deaths, e)
		}
		return []history.Event{e}
	}
	publishes := func(when time.Duration, id uint64) []history.Event {
		return []history.Event{at(when, published(id, loopWork)), at(when, answered(history.Confirmed, id))}
	}
	settles := func(when time.Duration, id uint64, o history.Outcome) []history.Event {
		return both(when, id, loopWork, "c", o)
	}
	return slices.Concat(
		[]history.Event{
			{Kind: history.Declared, Queue: loopWork, Spec: &history.Queue{DeliveryLimit: -1, DeadTo: loopWait}},
			{Kind: history.Declared, Queue: loopWait, Spec: &history.Queue{DeliveryLimit: -1, DeadTo: loopWork, TTL: 300 * ms}},
		},
		publishes(1*s, 1), comes(1*s, 1, "c", 0, 0), settles(1*s, 1, history.Discard),
		comes(1500*ms, 1, "c", 0, 1), settles(1500*ms, 1, history.Discard),
		comes(2*s, 1, "c", 0, 2), settles(2*s, 1, history.Ack),

		publishes(2*s, 2), comes(2*s, 2, "c", 0, 0), settles(2*s, 2, history.Ack),

		publishes(3*s, 3), comes(3*s, 3, "c", 0, 0), begins(3*s, 3, "c", history.Discard),
		comes(3500*ms, 3, "x", 0, 1), lost(3600*ms, "x"), comes(3700*ms, 3, "c", 1, 1), settles(3700*ms, 3, history.Ack),

		publishes(4*s, 4), comes(4*s, 4, "y", 0, 0), begins(4*s, 4, "y", history.Discard), lost(4*s, "y"),
		comes(4100*ms, 4, "c", 1, 0), settles(4100*ms, 4, history.Discard), comes(4500*ms, 4, "c", 0, 1), settles(4500*ms, 4, history.Ack),

		publishes(5*s, 5), comes(5*s, 5, "c", 1, 0), settles(5*s, 5, history.Discard), lost(5*s, "z"),
		comes(5100*ms, 5, "z", 0, 0), begins(5100*ms, 5, "z", history.Discard), comes(5500*ms, 5, "c", 0, 1), settles(5500*ms, 5, history.Ack),

		[]history.Event{
			at(6*s, history.Event{Kind: history.Drained, Queue: loopWork}), at(6*s, history.Event{Kind: history.Drained, Queue: loopWait}),
		},
	)
}

func TestValidCycle(t *testing.T) {
	r := Check(validCycle())
	if r.Verdict != Valid {
		t.Fatal(r.String())
	}
	if r.Counts.DeadLetters != 0 {
		t.Errorf("%d messages count as dead letters where they were published", r.Counts.DeadLetters)
	}
}

// What is wrong with deaths that are counted, and with what comes back, is found by what it breaks alone.
func TestRejectsCycle(t *testing.T) {
	const s = time.Second
	// carries changes the deaths of each delivery of message 1.
	carries := func(to func(deaths []history.Death)) mutation {
		return func(events []history.Event) []history.Event {
			for _, e := range events {
				if e.Kind == history.Delivered && e.ID == 1 && len(e.Deaths) > 0 {
					to(e.Deaths)
				}
			}
			return events
		}
	}
	since := func(when time.Duration) mutation {
		return without(func(e history.Event) bool { return e.ID == 1 && e.At >= when })
	}
	for name, test := range map[string]struct {
		mutate mutation
		breaks []string
	}{
		"the second death is not counted":  {carries(func(d []history.Death) { d[0].Count, d[1].Count = 1, 1 }), []string{deathCounts}},
		"one death too many":               {carries(func(d []history.Death) { d[0].Count, d[1].Count = d[0].Count+1, d[1].Count+1 }), []string{deathCounts}},
		"the second expiry is not counted": {carries(func(d []history.Death) { d[0].Count = 1 }), []string{deathCounts}},
		"of another reason":                {carries(func(d []history.Death) { d[1].Reason = "delivery_limit" }), []string{deathCounts}},
		"comes back twice":                 {with(died(1, 1, at(1500*ms, delivered(1, loopWork, "c", 0, 0)))), []string{deathCounts}},
		"lost after a discard":             {since(2 * s), []string{loss}},
		"lost after the first discard":     {since(1500 * ms), []string{loss}},
		"comes back, never discarded":      {with(slices.Concat([]history.Event{died(1, 1, at(2500*ms, delivered(2, loopWork, "c", 0, 0)))}, both(2500*ms, 2, loopWork, "c", history.Ack))...), []string{stays, deathCounts}},
		"again without a cause":            {without(func(e history.Event) bool { return e.Kind == history.Lost && e.Consumer == "x" }), []string{causes}},
		// Without deaths the deliveries of one life count as assigned before those of another, whose last ack is not the end then.
		"no deaths, and nobody saw it as new": {func(events []history.Event) []history.Event {
			events = without(func(e history.Event) bool { return e.ID == 5 && e.Consumer == "z" })(events)
			for i := range events {
				if events[i].ID == 5 {
					events[i].Deaths = nil
				}
			}
			return events
		}, []string{loss, causes, deathCounts}},
		"no deaths at all": {func(events []history.Event) []history.Event {
			for i := range events {
				events[i].Deaths = nil
			}
			return events
		}, []string{loss, causes, deathCounts}},
	} {
		t.Run(name, func(t *testing.T) {
			breaks(t, Check(test.mutate(validCycle())), test.breaks)
		})
	}
	for _, q := range []string{loopWork, loopWait} {
		undrained := without(func(e history.Event) bool { return e.Kind == history.Drained && e.Queue == q })
		if r := Check(undrained(validCycle())); r.Verdict != Undecidable {
			t.Errorf("%s is not drained: %s", q, r.String())
		}
	}
}

// A queue is in a cycle if its dead letters may come back to it, over whatever others, and only then.
func TestCycles(t *testing.T) {
	to := func(queues ...string) *history.Queue { return &history.Queue{DeadTo: queues[0], DeadFan: queues[1:]} }
	got := cyclesOf(map[string]*history.Queue{
		"a": to("b"), "b": to("out", "c"), "c": to("a"), "before": to("a"), "self": to("self"), "out": {}, "gone": to("nowhere"),
	})
	want := map[string][]string{"a": {"b", "out", "c", "a"}, "b": {"out", "c", "a", "b"}, "c": {"a", "b", "out", "c"}, "self": {"self"}}
	for queue, pass := range want {
		if !slices.Equal(got[queue], pass) {
			t.Errorf("dead letters of %s pass %v, want %v", queue, got[queue], pass)
		}
	}
	if len(got) != len(want) {
		t.Errorf("in cycles are %v", got)
	}
}
