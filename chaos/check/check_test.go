package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

const (
	mainQueue = "main"
	deadQueue = "dead"
	limited3  = "limited" // delivery limit 1, TTL 2 s, dead letters into deadQueue
	single    = "single"
)

const ms = time.Millisecond

// at is an event at a time.
func at(when time.Duration, e history.Event) history.Event {
	e.At = when
	return e
}

func published(id uint64, queue string) history.Event {
	return history.Event{Kind: history.Published, Publisher: 1, ID: id, Queues: []string{queue}}
}

func answered(kind history.Kind, id uint64) history.Event {
	return history.Event{Kind: kind, Publisher: 1, ID: id}
}

func delivered(id uint64, queue, to string, acquired, count uint32) history.Event {
	return history.Event{Kind: history.Delivered, Publisher: 1, ID: id, Queue: queue, Consumer: to, Acquired: acquired, Count: count, Again: acquired > 0}
}

func dead(id uint64, from, reason string) history.Event {
	e := delivered(id, deadQueue, "d", 0, 0)
	e.Deaths = []history.Death{{Queue: from, Reason: reason, Count: 1}}
	return e
}

func settled(kind history.Kind, id uint64, queue, by string, o history.Outcome) history.Event {
	return history.Event{Kind: kind, Publisher: 1, ID: id, Queue: queue, Consumer: by, Outcome: o}
}

// both are the beginning and the commit of a settlement.
func both(when time.Duration, id uint64, queue, by string, o history.Outcome) []history.Event {
	return []history.Event{
		at(when, settled(history.Deciding, id, queue, by, o)), at(when, settled(history.Decided, id, queue, by, o)),
	}
}

func figures(goroutines float64) history.Event {
	return history.Event{Kind: history.Resources, Node: "n1", Figures: map[string]float64{"goroutines": goroutines}}
}

// warm makes the figures those of a node whose caches are full.
func warm(e history.Event) history.Event {
	e.Note = history.Warm
	return e
}

// operation is one on the register r.
func operation(client int, write bool, value string, call, answer time.Duration) history.Event {
	return history.Event{Kind: history.Register, Op: &history.Operation{Client: client, Name: "r", Write: write, Value: value, Call: call, Return: answer}}
}

func digest(node string, index uint64, state string) history.Event {
	return history.Event{Kind: history.Digest, Queue: mainQueue, Node: node, Index: index, Note: state}
}

// valid returns a history in which all is well: message 1 is acked, 2 discarded and
// dead-lettered, 3 delivered again after a fault, 4 refused, 5 of unknown outcome and not stored,
// 6 returned and acked, 7 dead-lettered by the delivery limit, 8 by its TTL, 9 and 10 go to the
// single active consumer s1, then 11 to s2, 12 waits for its delay.
func valid() []history.Event {
	const s = time.Second
	return slices.Concat(
		[]history.Event{
			{Kind: history.Began, Settings: &history.Settings{MaxPause: 1, Nodes: []string{"n1", "n2", "n3"}}},
			{Kind: history.Declared, Queue: mainQueue, Spec: &history.Queue{DeadTo: deadQueue, DeliveryLimit: -1, Ordered: true}},
			{Kind: history.Declared, Queue: deadQueue, Spec: &history.Queue{DeliveryLimit: -1}},
			{Kind: history.Declared, Queue: limited3, Spec: &history.Queue{DeadTo: deadQueue, DeliveryLimit: 1, TTL: 2 * s}},
			{Kind: history.Declared, Queue: single, Spec: &history.Queue{DeliveryLimit: -1, SingleActive: true}},
			figures(100),
			at(1*ms, published(1, mainQueue)), at(1*ms, published(2, mainQueue)),
			at(2*ms, answered(history.Confirmed, 1)), at(2*ms, answered(history.Confirmed, 2)),
			at(3*ms, delivered(1, mainQueue, "c", 0, 0)), at(3*ms, delivered(2, mainQueue, "c", 0, 0)),
		},
		both(4*ms, 1, mainQueue, "c", history.Ack), both(5*ms, 2, mainQueue, "c", history.Discard),
		[]history.Event{
			at(12*ms, history.Event{Kind: history.Fault, Fault: 1, Nodes: []string{"n1"}, Note: "kill of leader", Class: "killed"}),
			at(13*ms, published(3, mainQueue)), at(14*ms, delivered(3, mainQueue, "c", 0, 0)),
			at(15*ms, published(4, mainQueue)), at(16*ms, published(5, mainQueue)),
			at(16*ms, answered(history.Refused, 4)), at(16*ms, answered(history.Unknown, 5)),
			at(17*ms, history.Event{Kind: history.Confirmed, Publisher: 1, ID: 3, Sent: 13 * ms}),
			at(20*ms, history.Event{Kind: history.Healed, Fault: 1, Nodes: []string{"n1"}}),
			at(21*ms, history.Event{Kind: history.Led}),
			at(22*ms, delivered(3, mainQueue, "c", 1, 0)),
		},
		both(23*ms, 3, mainQueue, "c", history.Ack),
		[]history.Event{at(24*ms, dead(2, mainQueue, "rejected"))}, both(25*ms, 2, deadQueue, "d", history.Ack),
		// From here on no fault explains anything.
		[]history.Event{at(10*s, published(6, mainQueue)), at(10*s, answered(history.Confirmed, 6)), at(10*s, delivered(6, mainQueue, "c", 0, 0))},
		both(10*s, 6, mainQueue, "c", history.Requeue),
		[]history.Event{at(10*s, delivered(6, mainQueue, "c", 1, 1))}, both(10*s, 6, mainQueue, "c", history.Ack),
		[]history.Event{at(11*s, published(7, limited3)), at(11*s, answered(history.Confirmed, 7)), at(11*s, delivered(7, limited3, "c", 0, 0))},
		both(11*s, 7, limited3, "c", history.Requeue),
		[]history.Event{at(11*s, delivered(7, limited3, "c", 1, 1))}, both(11*s, 7, limited3, "c", history.Requeue),
		[]history.Event{at(11*s, dead(7, limited3, "delivery_limit"))}, both(11*s, 7, deadQueue, "d", history.Ack),
		[]history.Event{at(12*s, published(8, limited3)), at(12*s, answered(history.Confirmed, 8)), at(14*s, dead(8, limited3, "expired"))},
		both(14*s, 8, deadQueue, "d", history.Ack),
		[]history.Event{
			at(15*s, published(9, single)), at(15*s, published(10, single)), at(15*s, published(11, single)),
			at(15*s, history.Event{Kind: history.Active, Queue: single, Consumer: "s1"}),
			at(15*s, delivered(9, single, "s1", 0, 0)), at(16*s, delivered(10, single, "s1", 0, 0)),
		},
		both(16*s, 9, single, "s1", history.Ack), both(16*s, 10, single, "s1", history.Ack),
		[]history.Event{at(16*s+500*ms, history.Event{Kind: history.Inactive, Queue: single, Consumer: "s1"}), at(17*s, delivered(11, single, "s2", 0, 0))}, both(19*s, 11, single, "s2", history.Ack),
		[]history.Event{
			at(20*s, history.Event{Kind: history.Published, Publisher: 1, ID: 12, Queues: []string{mainQueue}, Delay: 3 * s}),
			at(20*s, answered(history.Confirmed, 12)), at(23*s, delivered(12, mainQueue, "c", 0, 0)),
		},
		both(23*s, 12, mainQueue, "c", history.Ack),
		[]history.Event{
			at(23*s, operation(1, true, "there", 1*s, 2*s)), at(23*s, operation(2, false, "there", 3*s, 4*s)),
			at(23*s, operation(1, true, "", 5*s, 7*s)), at(23*s, operation(2, false, "there", 6*s, 8*s)), at(23*s, operation(2, false, "", 9*s, 10*s)),
			at(24*s, history.Event{Kind: history.Drained, Queue: mainQueue}), at(24*s, history.Event{Kind: history.Drained, Queue: deadQueue}),
			at(24*s, history.Event{Kind: history.Drained, Queue: limited3}), at(24*s, history.Event{Kind: history.Drained, Queue: single}),
			at(25*s, digest("n1", 7, "aa")), at(25*s, digest("n2", 7, "aa")),
			at(25*s, figures(110)),
		},
	)
}

func TestValid(t *testing.T) {
	r := Check(valid())
	if r.Verdict != Valid {
		t.Fatal(r.String())
	}
	if len(r.Recoveries) != 1 || r.Recoveries[0].Confirm != 5*ms {
		t.Errorf("recoveries %v", r.Recoveries)
	}
	want := Counts{Published: 12, Confirmed: 7, Refused: 1, Unknown: 1, Delivered: 12, Redelivered: 3, DeadLetters: 3, Faults: 1}
	if r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
	more, cycle := Check(validWorkloads()), Check(validCycle())
	for i, g := range r.Guarantees {
		if g.Checked+more.Guarantees[i].Checked+cycle.Guarantees[i].Checked == 0 && g.Name != lengths && g.Name != backFirst { // TestLengths and TestReturns have them
			t.Errorf("%s: nothing in the histories could break it", g.Name)
		}
	}
}

const (
	loss, invented, twice  = "no confirmed message is lost", "nothing is invented", "nothing is stored twice"
	stays, order           = "what is settled stays settled", "each publisher's order holds"
	causes, limit, expires = "redeliveries have a cause", "the delivery limit holds", "nothing expires early or is delivered late"
	soon                   = "what expires comes soon"
	flag                   = "the flag redelivered tells the truth"
	getsAll                = "consumers get all that a queue holds"
	arrives, oneIsActive   = "dead letters arrive exactly once", "a single active consumer is never two"
	states, led, leaks     = "members have the same state", "every queue is led again", "nothing leaks"
	linear, declares       = "queues are linearizable", "declares and deletes are linearizable"
	lengths, pauses        = "the lengths of queues add up", "clients go on"
)

type mutation func([]history.Event) []history.Event

// without drops events.
func without(drop func(history.Event) bool) mutation {
	return func(e []history.Event) []history.Event { return slices.DeleteFunc(e, drop) }
}

// with adds events at their times.
func with(more ...history.Event) mutation {
	return func(events []history.Event) []history.Event {
		events = append(events, more...)
		slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.At - b.At) })
		return events
	}
}

// came adds a delivery and how it was settled.
func came(when time.Duration, id uint64, queue string, acquired uint32, o history.Outcome) mutation {
	return with(slices.Concat([]history.Event{at(when, delivered(id, queue, "c", acquired, 0))}, both(when, id, queue, "c", o))...)
}

// change changes the first event of a kind and message.
func change(k history.Kind, id uint64, queue string, to func(*history.Event)) mutation {
	return func(events []history.Event) []history.Event {
		for i := range events {
			if e := &events[i]; e.Kind == k && e.ID == id && e.Queue == queue {
				to(e)
				return events
			}
		}
		panic("the history has no such event")
	}
}

// A checker that passes everything is worse than none: each way to spoil the valid history must
// be found, and by the checkers of the guarantees that it breaks alone.
func TestRejects(t *testing.T) {
	const s = time.Second
	of := func(id uint64, queue string) func(history.Event) bool {
		return func(e history.Event) bool { return e.ID == id && e.Queue == queue }
	}
	tests := map[string]struct {
		mutate mutation
		breaks []string
	}{
		"confirmed and lost":            {without(of(1, mainQueue)), []string{loss}},
		"delivered once, then vanished": {without(func(e history.Event) bool { return of(1, mainQueue)(e) && e.Outcome != "" }), []string{loss}},
		"returned, then vanished": {without(func(e history.Event) bool {
			return of(6, mainQueue)(e) && (e.Acquired == 1 || e.Outcome == history.Ack)
		}), []string{loss}},
		"dead letter lost": {without(of(2, deadQueue)), []string{loss}},
		"discard unseen, dead letter lost": {without(func(e history.Event) bool {
			return of(2, deadQueue)(e) || of(2, mainQueue)(e) && e.Kind == history.Decided
		}), []string{loss}},
		"expired and lost":                   {without(of(8, deadQueue)), []string{loss}},
		"dead letter delivered and vanished": {without(func(e history.Event) bool { return of(2, deadQueue)(e) && e.Outcome != "" }), []string{loss}},
		"never published":                    {came(10*s, 99, mainQueue, 0, history.Ack), []string{invented, order}},
		"refused, yet delivered":             {came(22*ms, 4, mainQueue, 0, history.Ack), []string{invented}},
		"stored twice":                       {with(at(3*ms, delivered(1, mainQueue, "c", 0, 0))), []string{twice, order}},
		"back after its ack":                 {came(22*ms, 1, mainQueue, 1, history.Ack), []string{stays}},
		"back after its discard":             {came(22*ms, 2, mainQueue, 1, history.Discard), []string{stays}},
		"out of order": {func(events []history.Event) []history.Event {
			i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Delivered && e.ID == 1 })
			events[i], events[i+1] = events[i+1], events[i]
			return events
		}, []string{order}},
		"delivered again without a cause": {func(events []history.Event) []history.Event {
			return without(func(e history.Event) bool { return of(6, mainQueue)(e) && e.Outcome == history.Requeue })(events)
		}, []string{causes}},
		"one assignment for two":     {with(at(15*ms, delivered(3, mainQueue, "e", 1, 0))), []string{causes}},
		"again without the flag":     {change(history.Delivered, 7, limited3, func(e *history.Event) { e.Again = true }), []string{flag}},
		"count of failures falls":    {change(history.Delivered, 6, mainQueue, func(e *history.Event) { e.Count = 2 }), []string{causes}},
		"beyond the limit":           {change(history.Delivered, 7, limited3, func(e *history.Event) { e.Count = 2 }), []string{causes, limit}},
		"delivered after its expiry": {came(20*s, 8, limited3, 0, history.Ack), []string{soon}},
		"expired early":              {change(history.Delivered, 8, deadQueue, func(e *history.Event) { e.At = 12*s + 500*ms }), []string{expires}},
		"expired late":               {change(history.Delivered, 8, deadQueue, func(e *history.Event) { e.At = 20 * s }), []string{soon}},
		"delivered before its time":  {change(history.Delivered, 12, mainQueue, func(e *history.Event) { e.At = 21 * s }), []string{expires}},
		"dead letter twice":          {with(at(24*ms, dead(2, mainQueue, "rejected"))), []string{arrives}},
		"dead without a discard": {
			with(slices.Concat([]history.Event{at(24*ms, dead(1, mainQueue, "rejected"))}, both(24*ms, 1, deadQueue, "d", history.Ack))...),
			[]string{arrives},
		},
		"expired without a TTL":   {change(history.Delivered, 2, deadQueue, func(e *history.Event) { e.Deaths[0].Reason = "expired" }), []string{arrives}},
		"limit without a limit":   {change(history.Delivered, 2, deadQueue, func(e *history.Event) { e.Deaths[0].Reason = "delivery_limit" }), []string{arrives}},
		"death counted twice":     {change(history.Delivered, 2, deadQueue, func(e *history.Event) { e.Deaths[0].Count = 2 }), []string{arrives}},
		"died where it never was": {change(history.Delivered, 2, deadQueue, func(e *history.Event) { e.Deaths[0].Queue = limited3 }), []string{arrives}},
		"two active": {
			with(slices.Concat([]history.Event{
				at(18*s+500*ms, published(13, single)), at(18*s+500*ms, delivered(13, single, "s1", 0, 0)),
			}, both(19*s, 13, single, "s1", history.Ack))...),
			[]string{oneIsActive},
		},
		"two are told that they are active": {
			with(at(15*s+200*ms, history.Event{Kind: history.Active, Queue: single, Consumer: "s2"})), []string{oneIsActive},
		},
		"a body that nobody can have sent": {
			with(at(23*s, history.Event{Kind: history.Delivered, Queue: mainQueue, Consumer: "c"}), at(23*s, history.Event{Kind: history.Deciding, Queue: mainQueue, Consumer: "c", Outcome: history.Ack})),
			[]string{invented},
		},
		"nobody gets what is left": {
			change(history.Drained, 0, mainQueue, func(e *history.Event) { e.Kind, e.At, e.Messages = history.Left, 90*s, 3 }), []string{getsAll, lengths},
		},
		"another publisher's message overtakes": {func(events []history.Event) []history.Event {
			return with(
				at(9*s, history.Event{Kind: history.Published, Publisher: 2, ID: 1, Queues: []string{mainQueue}}),
				at(9*s+ms, history.Event{Kind: history.Confirmed, Publisher: 2, ID: 1}),
				at(10*s+ms, history.Event{Kind: history.Delivered, Publisher: 2, ID: 1, Queue: mainQueue, Consumer: "c"}),
				at(10*s+ms, history.Event{Kind: history.Deciding, Publisher: 2, ID: 1, Queue: mainQueue, Consumer: "c", Outcome: history.Ack}),
			)(events)
		}, []string{linear}},
		"what was deleted is there": {with(at(23*s, operation(2, false, "there", 11*s, 12*s))), []string{declares}},
		"what is not yet declared is there": {func(events []history.Event) []history.Event {
			i := slices.IndexFunc(events, func(e history.Event) bool { return e.Op != nil && e.Op.Write })
			events[i].Op.Call, events[i].Op.Return = 4*s+ms, 4*s+2*ms
			return events
		}, []string{declares}},
		"a long pause":           {change(history.Confirmed, 3, "", func(e *history.Event) { e.At = 1200 * ms }), []string{pauses}},
		"members differ":         {change(history.Digest, 0, mainQueue, func(e *history.Event) { e.Note = "bb" }), []string{states}},
		"led late":               {change(history.Led, 0, "", func(e *history.Event) { e.At = 6 * s }), []string{led}},
		"leak":                   {with(at(26*s, figures(500))), []string{leaks}},
		"leak since it was warm": {with(at(23*s, warm(figures(30))), at(26*s, figures(105))), []string{leaks}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			breaks(t, Check(test.mutate(valid())), test.breaks)
		})
	}
}

// A consumer that was lost may read what it had been sent when others have long had it, and settled it: the number of an
// assignment says which was the last.
func TestReadLate(t *testing.T) {
	for name, when := range map[string]time.Duration{
		"while the next one holds it": 22 * ms, "while its settlement is under way": 23 * ms, "after its commit": 24 * ms,
	} {
		t.Run(name, func(t *testing.T) {
			events := valid()
			i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Delivered && e.ID == 3 })
			late := events[i]
			late.At, late.Consumer = when, "x"
			if r := Check(with(late)(slices.Delete(events, i, i+1))); r.Verdict != Valid {
				t.Error(r.String())
			}
		})
	}
}

// Where pauses are not judged a machine may be busy, so queues may have their leaders later.
func TestLedLaterOnBusyMachine(t *testing.T) {
	for took, want := range map[time.Duration]int{6 * time.Second: 0, 16 * time.Second: 1} {
		events := change(history.Led, 0, "", func(e *history.Event) { e.At = took })(valid())
		events[0].Settings.MaxPause = 0
		if g := ledAgain(read(events)); len(g.Broken) != want {
			t.Errorf("led after %v: %+v", took, g.Broken)
		}
	}
}

// A breach comes with what was seen of its message, and when the consumers that had it were lost.
func TestStory(t *testing.T) {
	events := without(func(e history.Event) bool { return e.ID == 6 && (e.Acquired == 1 || e.Outcome == history.Ack) })(valid())
	events = with(at(11*time.Second, history.Event{Kind: history.Lost, Queue: mainQueue, Consumer: "c"}))(events)
	r := Check(events)
	breaks(t, r, []string{loss})
	want := []string{
		"10s published to main", "10s confirmed", "10s delivered in main by c after 0 deliveries and 0 failures",
		"10s deciding requeue in main by c", "10s decided requeue in main by c", "11s c is lost",
	}
	for _, line := range want {
		if !strings.Contains(r.String(), line+"\n") {
			t.Errorf("the report lacks %q:\n%s", line, r.String())
		}
	}
}

// What nodes used already when their caches were full is no leak.
func TestWarmIsNoLeak(t *testing.T) {
	events := append(valid(), at(26*time.Second, warm(figures(400))), at(27*time.Second, figures(500)))
	if r := Check(events); r.Verdict != Valid {
		t.Error(r.String())
	}
}

// breaks demands that the report is invalid for these guarantees alone.
func breaks(t *testing.T, r Report, want []string) {
	t.Helper()
	var broken []string
	for _, g := range r.Guarantees {
		if len(g.Broken) > 0 {
			broken = append(broken, g.Name)
		}
	}
	if r.Verdict != Invalid || !slices.Equal(broken, want) {
		t.Errorf("breaks %q, want %q:\n%s", broken, want, r.String())
	}
}

func TestUndecidable(t *testing.T) {
	for name, mutate := range map[string]mutation{
		"not drained":       without(func(e history.Event) bool { return e.Kind == history.Drained }),
		"nothing confirmed": without(func(e history.Event) bool { return e.Kind == history.Confirmed }),
		"no rest":           change(history.Digest, 0, mainQueue, func(e *history.Event) { e.Index = 6 }),
	} {
		if r := Check(mutate(valid())); r.Verdict != Undecidable {
			t.Errorf("%s: %s", name, r.String())
		}
	}
}
