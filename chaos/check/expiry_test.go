package check

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// What is delivered late counts by when it was assigned at the earliest: after the consumer was asked for, had room for
// it, or had given it back.
func TestAssignedAfterExpiry(t *testing.T) {
	const s, brief = time.Second, "brief"
	opened := func(asked time.Duration, prefetch uint32) history.Event {
		return at(asked, history.Event{Kind: history.Opened, Queue: brief, Consumer: "c", Sent: asked, Prefetch: prefetch})
	}
	took := func(when time.Duration, id uint64) history.Event { return at(when, delivered(id, brief, "c", 0, 0)) }
	again := func(when time.Duration) history.Event { return at(when, delivered(1, brief, "c", 1, 0)) }
	decided := func(when time.Duration, o history.Outcome) history.Event {
		return at(when, settled(history.Deciding, 1, brief, "c", o))
	}
	for name, test := range map[string]struct {
		events []history.Event // 1 and 2 are confirmed at 1 s and expire at 2 s
		broken int
		late   int
	}{
		"asked for late":                {[]history.Event{opened(3500*ms, 0), took(3600*ms, 1), took(3600*ms, 2)}, 2, 0},
		"asked for within the limit":    {[]history.Event{opened(2900*ms, 0), took(4*s, 1)}, 0, 0},
		"asked for in time, read late":  {[]history.Event{opened(1*s, 0), took(4*s, 1)}, 0, 0},
		"read much too late":            {[]history.Event{opened(1*s, 0), took(7100*ms, 1)}, 0, 1},
		"asked for at an unknown time":  {[]history.Event{took(4*s, 1)}, 0, 0},
		"room after the expiry":         {[]history.Event{opened(1*s, 1), took(1100*ms, 1), decided(3500*ms, history.Ack), took(3600*ms, 2)}, 1, 0},
		"room before, read late":        {[]history.Event{opened(1*s, 1), took(1100*ms, 1), decided(2500*ms, history.Ack), took(3600*ms, 2)}, 0, 0},
		"room from the beginning":       {[]history.Event{opened(1*s, 2), took(1100*ms, 1), decided(3500*ms, history.Ack), took(3600*ms, 2)}, 0, 0},
		"given back after the expiry":   {[]history.Event{opened(1*s, 0), took(1100*ms, 1), decided(3500*ms, history.Return), again(3600 * ms)}, 1, 0},
		"given back before, read late":  {[]history.Event{opened(1*s, 0), took(1100*ms, 1), decided(2500*ms, history.Requeue), again(3600 * ms)}, 0, 0},
		"given back, its consumer lost": {[]history.Event{opened(1*s, 0), took(1100*ms, 1), at(1500*ms, history.Event{Kind: history.Lost, Queue: brief, Consumer: "c"}), decided(3500*ms, history.Return), again(3600 * ms)}, 0, 0},
		"asked for late, by a fault": {[]history.Event{
			at(1500*ms, history.Event{Kind: history.Fault, Fault: 1}), at(1600*ms, history.Event{Kind: history.Healed, Fault: 1}), opened(3500*ms, 0), took(3600*ms, 1),
		}, 0, 0},
	} {
		events := slices.Concat([]history.Event{
			{Kind: history.Began, Settings: &history.Settings{MaxPause: 1}},
			{Kind: history.Declared, Queue: brief, Spec: &history.Queue{DeliveryLimit: -1, TTL: s}},
			at(1*s, published(1, brief)), at(1*s, answered(history.Confirmed, 1)), at(1*s, published(2, brief)), at(1*s, answered(history.Confirmed, 2)),
		}, test.events)
		if g := onTime(read(events)); len(g.Broken) != test.broken {
			t.Errorf("%s: broken %d times, want %d: %+v", name, len(g.Broken), test.broken, g.Broken)
		}
		if g := comesSoon(read(events)); len(g.Broken) != test.late {
			t.Errorf("%s: late %d times, want %d: %+v", name, len(g.Broken), test.late, g.Broken)
		}
		for _, factor := range []float64{0, 3} { // 0: pauses are not judged
			events[0].Settings.MaxPause = factor
			if g := comesSoon(read(events)); len(g.Broken) > 0 {
				t.Errorf("%s: late on a busy machine: %+v", name, g.Broken)
			}
		}
	}
}
