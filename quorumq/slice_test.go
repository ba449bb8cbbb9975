package quorumq

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/id"
)

// dueQueue returns a queue with count messages that are due at 10, and behind them one that never
// is.
func dueQueue(rules Rules, count int) *Queue {
	c := DefaultConfig()
	c.Rules, c.DeadLetter = rules, DeadLetterAtMostOnce
	q := New(1024, c)
	ms := make([]NewMessage, count+1)
	for i := range ms {
		ms[i] = NewMessage{Size: 1, TTLMs: 5, Priority: DefaultPriority}
	}
	ms[count].TTLMs = Unlimited
	q.Apply(Meta{Index: 1, Now: 5}, &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: ms})
	return q
}

// entryOf applies the given number of publishes, of one message each, as one entry.
func entryOf(q *Queue, index uint64, commands int) (stored int, copies []Discarded, timer Time) {
	for i := range commands {
		r, e := q.Apply(Meta{Index: index, FirstSlot: uint32(i), Now: 10}, &Enqueue{
			Enqueuer: EnqueuerKey{Node: "n2", Epoch: 1}, First: q.next2(), Messages: []NewMessage{{Size: 1, TTLMs: Unlimited}},
		})
		stored += r.Stored
		copies = append(copies, e.Copies...)
		timer = e.Timer
	}
	return stored, copies, timer
}

func (q *Queue) next2() Seq {
	if n := q.nodes.byID["n2"]; n != nil {
		return n.next
	}
	return 1
}

// TestEntryHandlesASlice shows that whoever waits for a command waits for one slice of what is due,
// however many commands share its entry (TTL-7). All of it is dead-lettered once and in order. The
// queue asks for the rest at once, under a new leader as well.
func TestEntryHandlesASlice(t *testing.T) {
	const due = 30_000
	q := dueQueue(RulesThird, due)
	var all []Discarded
	index := uint64(1)
	for len(all) < due {
		index++
		before := len(all)
		stored, copies, timer := entryOf(q, index, 40)
		all = append(all, copies...)
		if stored != 40 || len(copies) > ExpireSlice {
			t.Fatalf("entry %d stored %d of 40 messages, and handled %d that were due, want %d at most", index, stored, len(copies), ExpireSlice)
		}
		if len(all) < due && timer != 10 {
			t.Fatalf("entry %d leaves %d due messages and asks for time %d, want 10, which is now", index, due-len(all), timer)
		}
		if len(all) == before {
			t.Fatalf("entry %d handled nothing", index)
		}
		q = restoreCopy(t, q)
		if index == 9 { // the leader is a new one
			index++
			_, e := q.Apply(Meta{Index: index, Now: 10}, &Lead{Node: "n2", Term: 2})
			if all = append(all, e.Copies...); e.Timer != 10 || len(e.Copies) != ExpireSlice {
				t.Fatalf("the new leader gets time %d, and handles %d", e.Timer, len(e.Copies))
			}
		}
	}
	for i, c := range all {
		if want := (BodyRef{Index: 1, Slot: uint32(i)}); c.Body != want || c.Reason != ReasonExpired {
			t.Fatalf("dead letter %d is body %v with reason %v, want %v expired", i, c.Body, c.Reason, want)
		}
	}
	if o := q.Overview(); len(all) != due || o.Expired != due || o.Ready != o.Enqueued-due {
		t.Errorf("%d dead letters, %d expired of %d, %d ready", len(all), o.Expired, o.Enqueued, o.Ready)
	}
}

// TestNothingDueIsDelivered shows that between two slices no consumer and no Get receives what is
// due (TTL-2), and that a Get finds a message behind more than one slice.
func TestNothingDueIsDelivered(t *testing.T) {
	q := dueQueue(RulesThird, 2*ExpireSlice)
	k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: 1}, Tag: 1}
	if _, e := q.Apply(Meta{Index: 2, Now: 10}, &Checkout{Consumer: k}); len(e.Deliver) > 0 || e.Timer != 10 {
		t.Fatalf("delivered %v, timer %d", e.Deliver, e.Timer)
	}
	r, e := q.Apply(Meta{Index: 3, Now: 10}, &Expire{})
	if len(e.Deliver) != 1 || e.Deliver[0].Body.Slot != 2*ExpireSlice {
		t.Fatalf("delivered %v after %v", e.Deliver, r)
	}

	q = dueQueue(RulesThird, 3*ExpireSlice)
	r, _ = q.Apply(Meta{Index: 2, Now: 10}, &Get{Session: SessionKey{Node: "n1", Epoch: 1, Session: 2}})
	if r.Delivery == nil || r.Delivery.Body.Slot != 3*ExpireSlice {
		t.Fatalf("Get behind three slices finds %+v", r.Delivery)
	}
}

// TestFirstRulesGoByTheCommand pins what the entries of older logs do, and that only Configure
// raises the rules, which never fall (ADR 0016).
func TestFirstRulesGoByTheCommand(t *testing.T) {
	q := dueQueue(RulesFirst, 4*ExpireChunk)
	if _, copies, _ := entryOf(q, 2, 3); len(copies) != 3*ExpireChunk {
		t.Errorf("three commands handled %d, want %d", len(copies), 3*ExpireChunk)
	}
	c := q.config
	c.Rules = RulesThird
	_, e := q.Apply(Meta{Index: 3, Now: 10}, &Configure{Config: c})
	if len(e.Copies) != ExpireChunk {
		t.Errorf("the command that brings the rules goes by those before it: handled %d, want %d", len(e.Copies), ExpireChunk)
	}
	c.Rules = RulesFirst
	q.Apply(Meta{Index: 4, Now: 10}, &Configure{Config: c})
	if q.config.Rules != RulesThird {
		t.Errorf("rules fell to %d", q.config.Rules)
	}
}

// TestLowerLimitGoesBySlices shows that a much lower limit holds nobody up. Each entry drops a
// slice, in order; the timer asks for the next one; a new leader continues; and what is published
// meanwhile replaces the oldest messages.
func TestLowerLimitGoesBySlices(t *testing.T) {
	const count, limit = 10 * ExpireSlice, 100
	c := DefaultConfig()
	c.Rules, c.DeadLetter = RulesThird, DeadLetterAtMostOnce
	q := New(1024, c)
	q.Apply(Meta{Index: 1, Now: 5}, &Enqueue{
		Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1,
		Messages: slices.Repeat([]NewMessage{{Size: 1, TTLMs: Unlimited, Priority: DefaultPriority}}, count),
	})
	c.MaxLength = limit
	_, e := q.Apply(Meta{Index: 2, Now: 10}, &Configure{Config: c})
	all := slices.Clone(e.Copies)
	if len(all) != ExpireSlice || e.Timer != 10 {
		t.Fatalf("the lower limit dropped %d at once and asks for time %d, want %d and 10, which is now", len(all), e.Timer, ExpireSlice)
	}
	const publishes = 3
	for index := uint64(3); q.store.ready.len() > limit; index++ {
		q = restoreCopy(t, q)
		before := len(all)
		if index == 5 {
			_, e = q.Apply(Meta{Index: index, Now: 10}, &Lead{Node: "n2", Term: 2})
			all = append(all, e.Copies...)
		} else {
			_, copies, timer := entryOf(q, index, publishes)
			all, e.Timer = append(all, copies...), timer
		}
		if n := len(all) - before; n == 0 || n > ExpireSlice+publishes {
			t.Fatalf("entry %d dropped %d", index, n)
		}
		if q.store.ready.len() > limit && e.Timer != 10 {
			t.Fatalf("entry %d leaves %d messages and asks for time %d", index, q.store.ready.len(), e.Timer)
		}
	}
	for i, c := range all[:count-limit] {
		if want := (BodyRef{Index: 1, Slot: uint32(i)}); c.Body != want || c.Reason != ReasonMaxLen {
			t.Fatalf("dead letter %d is body %v with reason %v, want %v maxlen", i, c.Body, c.Reason, want)
		}
	}
	// In the steady state each new message replaces one other, however many messages an entry has.
	r, e := q.Apply(Meta{Index: 1000, Now: 10}, &Enqueue{
		Enqueuer: EnqueuerKey{Node: "n3", Epoch: 1}, First: 1,
		Messages: slices.Repeat([]NewMessage{{Size: 1, TTLMs: Unlimited, Priority: DefaultPriority}}, 3*ExpireSlice),
	})
	if r.Stored != 3*ExpireSlice || len(e.Copies) != 3*ExpireSlice || q.store.ready.len() != limit {
		t.Errorf("stored %d, dropped %d, %d are left of %d", r.Stored, len(e.Copies), q.store.ready.len(), limit)
	}
}

// TestMoreThanAChunkReturns shows that returned messages go to waiting consumers before a limit
// drops them, even if that takes more than one command (LEN-9).
func TestMoreThanAChunkReturns(t *testing.T) {
	const consumers, count = 3, 3 * MaxOutstanding
	c := DefaultConfig()
	c.Rules, c.DeadLetter, c.MaxLength = RulesThird, DeadLetterAtMostOnce, count
	q := New(1024, c)
	index := uint64(0)
	var dropped, delivered int
	apply := func(c Command) Time {
		index++
		_, e := q.Apply(Meta{Index: index, Now: 10}, c)
		dropped, delivered = dropped+len(e.Copies), delivered+len(e.Deliver)
		return e.Timer
	}
	apply(&Enqueue{
		Enqueuer: EnqueuerKey{Node: "n3", Epoch: 1}, First: 1,
		Messages: slices.Repeat([]NewMessage{{Size: 1, TTLMs: Unlimited, Priority: DefaultPriority}}, count),
	})
	for _, n := range []id.NodeID{"n1", "n2"} {
		for i := range uint32(consumers) {
			apply(&Checkout{Consumer: ConsumerKey{SessionKey: SessionKey{Node: n, Epoch: 1, Session: 1}, Tag: i + 1}})
		}
	}
	for apply(&Expire{}) == 10 { // chunks of assignments that remain
	}
	c.MaxLength = 100
	apply(&Configure{Config: c})
	if delivered != count || dropped != 0 {
		t.Fatalf("%d of %d are delivered, %d dropped", delivered, count, dropped)
	}
	for timer := apply(&NodeUp{Node: "n1", Epoch: 2}); timer == 10; timer = apply(&Expire{}) {
	}
	if delivered != 2*count || dropped != 0 {
		t.Errorf("%d of %d that returned are delivered, %d dropped", delivered-count, count, dropped)
	}
}
