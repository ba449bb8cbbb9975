package check

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// Queues of the history of workloads.
const (
	ranked                 = "ranked"                     // strict priorities
	txIn, txOut            = "tx.in", "tx.out"            // of a transaction that publishes and settles
	joint, left, right     = "joint", "left", "right"     // messages of joint are replaced in left and right
	work, failedBox, aside = "work", "failed box", "side" // a family
	named                  = "named"                      // is deleted and declared again
	firstWait, secondWait  = "first", "second"            // expiry, one after another, into endA and endB
	endA, endB             = "end.a", "end.b"
)

// of returns the event for a queue and consumer, with another publisher than that of valid.
func of(e history.Event, queue, consumer string) history.Event {
	e.Publisher, e.Queue, e.Consumer = 2, queue, consumer
	return e
}

func sent(id uint64, transaction int, queues ...string) history.Event {
	return history.Event{Kind: history.Published, Publisher: 2, ID: id, Queues: queues, Transaction: transaction}
}

func taken(id uint64, queue string) history.Event {
	return of(delivered(id, queue, "c", 0, 0), queue, "of "+queue)
}

func decides(id uint64, queue string, o history.Outcome, transaction int) history.Event {
	e := of(settled(history.Deciding, id, queue, "c", o), queue, "of "+queue)
	e.Transaction = transaction
	return e
}

func confirmed(id uint64) history.Event { return of(answered(history.Confirmed, id), "", "") }

// validWorkloads is a history of what single workloads do: 1 and 2 are of two priorities, of which
// the higher one is published later; 3 is copied to 4 and 5 by a transaction after one that was rolled back (6);
// 7 is replaced by 8 and 9, at the second try; 10 is discarded, redriven, discarded, moved aside and acked; 11 is
// in a queue that is deleted, 12 in the next one of that name; 13 expires twice, and a fan-out follows.
func validWorkloads() []history.Event {
	const s = time.Second
	declared := func(queue string, q history.Queue) history.Event {
		return history.Event{Kind: history.Declared, Queue: queue, Spec: &q}
	}
	plain := history.Queue{DeliveryLimit: -1}
	family := history.Queue{DeliveryLimit: -1, Moved: true, Family: "f"}
	end := func(queue string) history.Event {
		e := taken(13, queue)
		e.Deaths = []history.Death{{Queue: secondWait, Reason: "expired", Count: 1}, {Queue: firstWait, Reason: "expired", Count: 1}}
		return e
	}
	high := sent(2, 0, ranked)
	high.Priority = 9
	low := sent(1, 0, ranked)
	low.Priority = 1
	filler := sent(14, 0, ranked)
	filler.Priority = 1
	events := []history.Event{
		declared(ranked, history.Queue{DeliveryLimit: -1, Priorities: true}), declared(txIn, plain), declared(txOut, plain),
		declared(joint, plain), declared(left, plain), declared(right, plain), declared(named, plain),
		declared(work, family), declared(failedBox, family), declared(aside, family),
		declared(firstWait, history.Queue{DeliveryLimit: -1, TTL: s, DeadTo: secondWait}),
		declared(secondWait, history.Queue{DeliveryLimit: -1, TTL: 2 * s, DeadTo: endA, DeadFan: []string{endB}}), declared(endA, plain), declared(endB, plain),

		at(1*s, history.Event{Kind: history.Opened, Queue: ranked, Consumer: "of " + ranked, Prefetch: 1}),
		at(1*s, filler), at(1*s, confirmed(14)), at(1*s, taken(14, ranked)),
		at(1*s, low), at(1*s, confirmed(1)), at(2*s, high), at(2*s, confirmed(2)),
		at(3*s, decides(14, ranked, history.Ack, 0)), at(3*s, taken(2, ranked)), at(4*s, decides(2, ranked, history.Ack, 0)),
		at(4*s, taken(1, ranked)), at(4*s, decides(1, ranked, history.Ack, 0)),

		at(5*s, sent(3, 0, txIn)), at(5*s, confirmed(3)), at(5*s, taken(3, txIn)),
		at(5*s, sent(6, 1, txOut)), at(5*s, decides(3, txIn, history.Ack, 1)), at(5*s, of(answered(history.Refused, 6), "", "")),
		at(6*s, sent(4, 2, txOut)), at(6*s, sent(5, 2, txOut)), at(6*s, decides(3, txIn, history.Ack, 2)), at(6*s, confirmed(4)), at(6*s, confirmed(5)),
		at(6*s, taken(4, txOut)), at(6*s, taken(5, txOut)), at(6*s, decides(4, txOut, history.Ack, 0)), at(6*s, decides(5, txOut, history.Ack, 0)),

		at(7*s, sent(7, 0, joint)), at(7*s, confirmed(7)), at(7*s, taken(7, joint)),
		at(7*s, sent(15, 3, left)), at(7*s, sent(16, 3, right)), at(7*s, decides(7, joint, history.Replace, 3)),
		at(7*s, of(answered(history.Unknown, 15), "", "")), at(7*s, of(answered(history.Unknown, 16), "", "")),
		at(8*s, sent(8, 4, left)), at(8*s, sent(9, 4, right)), at(8*s, decides(7, joint, history.Replace, 4)), at(8*s, confirmed(8)), at(8*s, confirmed(9)),
		at(8*s, taken(8, left)), at(8*s, taken(9, right)), at(8*s, decides(8, left, history.Ack, 0)), at(8*s, decides(9, right, history.Ack, 0)),

		at(10*s, sent(10, 0, work)), at(10*s, confirmed(10)), at(10*s, taken(10, work)), at(10*s, decides(10, work, history.Discard, 0)),
		at(11*s, taken(10, work)), at(11*s, decides(10, work, history.Discard, 0)), at(12*s, taken(10, aside)), at(12*s, decides(10, aside, history.Ack, 0)),

		at(12*s+500*ms, sent(11, 0, named)), at(12*s+500*ms, confirmed(11)), at(13*s, history.Event{Kind: history.Deleted, Queue: named}),
		at(14*s, history.Event{Kind: history.Register, Op: &history.Operation{Name: named, Write: true, Call: 13 * s, Return: 14*s - ms}}),
		at(14*s, history.Event{Kind: history.Opened, Queue: named, Consumer: "of " + named}),
		at(14*s, sent(12, 0, named)), at(14*s, confirmed(12)), at(14*s, taken(12, named)), at(14*s, decides(12, named, history.Ack, 0)),

		at(20*s, sent(13, 0, firstWait)), at(20*s, confirmed(13)), at(23*s, end(endA)), at(23*s, end(endB)),
		at(23*s, decides(13, endA, history.Ack, 0)), at(23*s, decides(13, endB, history.Ack, 0)),
	}
	for _, q := range []string{ranked, txIn, txOut, joint, left, right, work, failedBox, aside, firstWait, secondWait, endA, endB} {
		events = append(events, at(24*s, history.Event{Kind: history.Drained, Queue: q}))
	}
	return events
}

func TestValidWorkloads(t *testing.T) {
	unread := func(e history.Event) history.Event { // the consumer that had it as new died before it read it
		if e.Kind == history.Delivered && e.ID == 10 && e.Queue == aside {
			e.Acquired, e.Again = 1, true
		}
		return e
	}
	events := validWorkloads()
	for i := range events {
		events[i] = unread(events[i])
	}
	if r := Check(events); r.Verdict != Valid {
		t.Error(r.String())
	}
	r := Check(validWorkloads())
	if r.Verdict != Valid {
		t.Fatal(r.String())
	}
	for _, g := range r.Guarantees {
		if slices.Contains([]string{highest, whole, moves, newOne, arrives, expires, loss}, g.Name) && g.Checked == 0 {
			t.Errorf("%s: nothing in the history could break it", g.Name)
		}
	}
}

const (
	highest, whole = "higher priorities come first", "transactions are whole"
	moves, newOne  = "operators' moves lose and double nothing", "a queue that is declared again is a new one"
)

// Each way to spoil the history of workloads is found, by the checkers of what it breaks alone.
func TestRejectsWorkloads(t *testing.T) {
	const s = time.Second
	in := func(id uint64, queue string) func(history.Event) bool {
		return func(e history.Event) bool { return e.ID == id && e.Queue == queue }
	}
	kind := func(k history.Kind, id uint64, queue string) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == k && in(id, queue)(e) }
	}
	again := func(when time.Duration, id uint64, queue string) mutation {
		return with(at(when, taken(id, queue)), at(when, decides(id, queue, history.Ack, 0)))
	}
	tests := map[string]struct {
		mutate mutation
		breaks []string
	}{
		"a lower priority first": {func(e []history.Event) []history.Event {
			i, j := slices.IndexFunc(e, kind(history.Delivered, 2, ranked)), slices.IndexFunc(e, kind(history.Delivered, 1, ranked))
			e[i].ID, e[j].ID = 1, 2
			i, j = slices.IndexFunc(e, kind(history.Deciding, 2, ranked)), slices.IndexFunc(e, kind(history.Deciding, 1, ranked))
			e[i].ID, e[j].ID = 1, 2
			return e
		}, []string{highest}},
		"half of a transaction":         {without(in(5, txOut)), []string{loss, whole}},
		"what was rolled back is there": {again(6*s, 6, txOut), []string{invented}},
		"replaced in one queue alone":   {without(in(9, right)), []string{loss, whole}},
		"replaced by two tries": {func(e []history.Event) []history.Event {
			return again(9*s, 16, right)(again(9*s, 15, left)(e))
		}, []string{whole}},
		"replaced by nothing": {func(e []history.Event) []history.Event {
			return without(func(e history.Event) bool {
				return in(8, left)(e) || in(9, right)(e) || e.Kind == history.Confirmed && (e.ID == 8 || e.ID == 9)
			})(e)
		}, []string{whole}},
		"back after it was replaced":  {with(at(9*s, of(settled(history.Decided, 7, joint, "c", history.Replace), joint, "of "+joint)), at(9*s, taken(7, joint))), []string{loss, twice, stays}},
		"moved, and still there":      {again(13*s, 10, work), []string{moves}},
		"redriven twice":              {again(11*s+ms, 10, work), []string{moves}},
		"lost by a move":              {without(in(10, aside)), []string{moves}},
		"lost before a move":          {without(func(e history.Event) bool { return in(10, aside)(e) || in(10, work)(e) }), []string{moves}},
		"what was deleted comes back": {again(15*s, 11, named), []string{newOne}},
		"lost on the way of the dead": {without(in(13, endB)), []string{loss}},
		"expired half as late": {func(e []history.Event) []history.Event {
			e[slices.IndexFunc(e, kind(history.Delivered, 13, endA))].At = 21*s + 500*ms
			return e
		}, []string{expires}},
		"came from elsewhere": {func(e []history.Event) []history.Event {
			x := &e[slices.IndexFunc(e, kind(history.Delivered, 13, endA))]
			x.Deaths = slices.Clone(x.Deaths[1:])
			return e
		}, []string{arrives}},
		"twice in the fan-out": {again(23*s, 13, endB), []string{arrives}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			breaks(t, Check(test.mutate(validWorkloads())), test.breaks)
		})
	}
	for _, q := range []string{txOut, joint, work, endB} {
		undrained := without(func(e history.Event) bool { return e.Kind == history.Drained && e.Queue == q })
		if r := Check(undrained(validWorkloads())); r.Verdict != Undecidable {
			t.Errorf("%s is not drained: %s", q, r.String())
		}
	}
}
