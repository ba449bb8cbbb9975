package check

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// Queues of dead letters that are sent at most once. What expires in onceFirst goes to onceBrief, at least once.
const onceWork, onceBrief, onceFirst, onceDead = "once.work", "once.brief", "once.first", "once.dead"

// validOnce returns a history in which all is well. Of the messages of onceWork 1 is discarded and arrives, 2 is
// discarded and lost, 3 is acked, 4 is discarded twice, the first time without an effect, and arrives. 5 expires and
// arrives, 6 expires and is lost, and so is 7 behind another queue.
func validOnce() []history.Event {
	const s = time.Second
	publishes := func(id uint64, queue string) []history.Event {
		return []history.Event{at(1*s, published(id, queue)), at(1*s, answered(history.Confirmed, id))}
	}
	takes := func(when time.Duration, id uint64, o history.Outcome) []history.Event {
		return slices.Concat([]history.Event{at(when, delivered(id, onceWork, "c", 0, 0))}, both(when, id, onceWork, "c", o))
	}
	arrives := func(id uint64, from, reason string) []history.Event {
		return append([]history.Event{at(2*s, copied(id, from, reason))}, both(2500*ms, id, onceDead, "d", history.Ack)...)
	}
	events := slices.Concat(
		[]history.Event{
			{Kind: history.Declared, Queue: onceWork, Spec: &history.Queue{DeliveryLimit: -1, DeadTo: onceDead, AtMostOnce: true}},
			{Kind: history.Declared, Queue: onceBrief, Spec: &history.Queue{DeliveryLimit: -1, DeadTo: onceDead, TTL: 300 * ms, AtMostOnce: true}},
			{Kind: history.Declared, Queue: onceFirst, Spec: &history.Queue{DeliveryLimit: -1, DeadTo: onceBrief, TTL: 300 * ms}},
			{Kind: history.Declared, Queue: onceDead, Spec: &history.Queue{DeliveryLimit: -1}},
		},
		publishes(1, onceWork), takes(1*s, 1, history.Discard), publishes(2, onceWork), takes(1*s, 2, history.Discard),
		publishes(3, onceWork), takes(1*s, 3, history.Ack),
		publishes(4, onceWork),
		[]history.Event{
			at(1*s, delivered(4, onceWork, "x", 0, 0)), at(1*s, settled(history.Deciding, 4, onceWork, "x", history.Discard)),
			at(1*s, history.Event{Kind: history.Lost, Queue: onceWork, Consumer: "x"}), at(1*s, delivered(4, onceWork, "c", 1, 0)),
		},
		both(1*s, 4, onceWork, "c", history.Discard),
		publishes(5, onceBrief), publishes(6, onceBrief), publishes(7, onceFirst),
		arrives(1, onceWork, "rejected"), arrives(4, onceWork, "rejected"), arrives(5, onceBrief, "expired"),
	)
	for _, q := range []string{onceWork, onceBrief, onceFirst, onceDead} {
		events = append(events, at(3*s, history.Event{Kind: history.Drained, Queue: q}))
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.At - b.At) })
	return events
}

// copied is a delivery of a dead letter that was sent at most once.
func copied(id uint64, from, reason string) history.Event {
	e := dead(id, from, reason)
	e.Queue = onceDead
	return e
}

// Dead letters that are sent at most once may be lost. What did not die may not, and none comes twice.
func TestAtMostOnce(t *testing.T) {
	if r := Check(validOnce()); r.Verdict != Valid {
		t.Fatal(r.String())
	}
	const s = time.Second
	twice := func(id uint64, from, reason string) mutation { return with(at(2*s, copied(id, from, reason))) }
	for name, test := range map[string]struct {
		mutate mutation
		breaks []string
	}{
		"rejected, comes twice":   {twice(1, onceWork, "rejected"), []string{arrives}},
		"expired, comes twice":    {twice(5, onceBrief, "expired"), []string{arrives}},
		"comes again when acked":  {with(append([]history.Event{at(2600*ms, copied(4, onceWork, "rejected"))}, both(2600*ms, 4, onceDead, "d", history.Ack)...)...), []string{stays, arrives}},
		"comes, though acked":     {with(append([]history.Event{at(2*s, copied(3, onceWork, "rejected"))}, both(2*s, 3, onceDead, "d", history.Ack)...)...), []string{arrives}},
		"lost, and not discarded": {without(func(e history.Event) bool { return e.ID == 3 && e.Queue == onceWork }), []string{loss}},
		"taken, and vanished":     {without(func(e history.Event) bool { return e.ID == 3 && e.Outcome != "" }), []string{loss}},
		"arrived, and vanished":   {without(func(e history.Event) bool { return e.ID == 5 && e.Outcome != "" }), []string{loss}},
	} {
		t.Run(name, func(t *testing.T) {
			breaks(t, Check(test.mutate(validOnce())), test.breaks)
		})
	}
}
