package quorumq

import (
	"slices"
	"testing"
)

// TestMarksAreBounded shows that the marks of messages removed from the middle go away: one message
// that stays does not keep the memory of those around it.
func TestMarksAreBounded(t *testing.T) {
	const count = 100_000
	q := New(1024, DefaultConfig())
	ms := make([]NewMessage, 1000)
	for i := range ms {
		ms[i] = NewMessage{Size: 1, TTLMs: 5}
	}
	ms[0].TTLMs = Unlimited
	for first := Seq(1); first < count; first += 1000 {
		q.Apply(Meta{Index: uint64(first), Now: 1}, &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: first, Messages: ms})
	}
	for i := range uint64(count/ExpireChunk + 2) {
		q.Apply(Meta{Index: count + i, Now: 10}, &Expire{})
	}
	d := q.store.ready.level(0)
	if d.len() != count/1000 {
		t.Fatalf("%d messages are left", d.len())
	}
	open, packed := 0, 0
	for _, b := range d.blocks[d.first:] {
		if b.open != nil {
			open++
		}
		packed += len(b.packed)
	}
	if open > openBlocks+1 || packed > 32*d.len() || len(d.blocks)-d.first > 2*d.len()+openBlocks {
		t.Errorf("%d messages take %d open blocks, %d packed bytes, %d blocks", d.len(), open, packed, len(d.blocks)-d.first)
	}
	if err := q.check(); err != nil {
		t.Error(err)
	}
}

// TestStaleExpiriesAreBounded shows that messages that are consumed before they expire leave no
// trace, even while one that expires before them all stays.
func TestStaleExpiriesAreBounded(t *testing.T) {
	q := New(1024, DefaultConfig())
	k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: 1}, Tag: 1}
	q.Apply(Meta{Index: 1}, &Checkout{Consumer: k, Credit: true})
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: []NewMessage{{Size: 1, TTLMs: 500}}}
	q.Apply(Meta{Index: 2}, e)
	e.First++
	e.Messages = benchMessages()
	for i := range e.Messages {
		e.Messages[i].TTLMs = int64(1_000_000 - i)
	}
	for i := range uint64(300) {
		at := Meta{Index: 10*i + 3}
		apply := func(c Command) {
			q.Apply(at, c)
			at.Index++
		}
		apply(e)
		e.First += benchBatch
		last, _ := q.LastMsgID(k)
		all := []MsgIDRange{{First: last + 1, Last: last + benchBatch}}
		apply(&Credit{Consumer: k, Limit: last + benchBatch})
		apply(&Requeue{Consumer: k, Ranges: all})
		last += benchBatch
		all = []MsgIDRange{{First: last + 1, Last: last + benchBatch}}
		apply(&Credit{Consumer: k, Limit: last + benchBatch})
		apply(&Settle{Consumer: k, Ranges: all})
	}
	if n, m := len(q.store.expiry.levels.entries), len(q.store.expiry.returned.entries); n > 2*maxStale || m > 2*maxStale {
		t.Errorf("%d and %d expiries for %d messages", n, m, q.store.ready.len())
	}
	if q.store.ready.len() != 1 || q.subs.unacked.messages != 0 {
		t.Errorf("%d ready, %d unsettled", q.store.ready.len(), q.subs.unacked.messages)
	}
}

// TestStuckMessagePinsNoWindow shows that the window of a consumer that holds its first and newest
// message, and settles all others, stays small.
func TestStuckMessagePinsNoWindow(t *testing.T) {
	q := New(1024, DefaultConfig())
	k := benchConsumer(q)
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: benchMessages()}
	for i := range uint64(1000) {
		q.Apply(Meta{Index: 2*i + 2}, e)
		e.First += benchBatch
		q.Apply(Meta{Index: 2*i + 3}, &Settle{Consumer: k, Ranges: []MsgIDRange{{First: 2, Last: MsgID(e.First - 2)}}})
	}
	w := &q.subs.consumer(k).held
	if w.live != 2 || len(w.items) > 1000 {
		t.Errorf("%d messages take %d places", w.live, len(w.items))
	}
	if ds := q.Assigned(nil, k, 0); len(ds) != 2 || ds[0].MsgID != 1 || ds[1].MsgID != MsgID(e.First-1) {
		t.Errorf("holds %v", ds)
	}
}

// TestManyGetsLeaveNoWindow shows that Get may hold any number of messages (DEL-5), and that their
// room is freed with them.
func TestManyGetsLeaveNoWindow(t *testing.T) {
	const count = 3 * MaxOutstanding
	q := New(1024, DefaultConfig())
	fill(q, count, Unlimited)
	s := SessionKey{Node: "n1", Epoch: 1, Session: 1}
	for i := range uint64(count) {
		if r, _ := q.Apply(Meta{Index: count + i + 1}, &Get{Session: s}); r.Delivery == nil {
			t.Fatalf("get %d finds nothing", i)
		}
	}
	k := ConsumerKey{SessionKey: s}
	q.Apply(Meta{Index: 3 * count}, &Settle{Consumer: k, Ranges: []MsgIDRange{{First: 1, Last: count}}})
	if w := q.subs.consumer(k).held; w.live != 0 || cap(w.items) > 0 {
		t.Errorf("%d messages keep room for %d", w.live, cap(w.items))
	}
	if err := q.check(); err != nil {
		t.Error(err)
	}
}

// TestQueueThatNeverEmpties shows that, after many messages, a queue takes as much memory as its
// length needs.
func TestQueueThatNeverEmpties(t *testing.T) {
	const length = 1000
	q := New(1024, DefaultConfig())
	fill(q, length, Unlimited)
	k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: 1}, Tag: 1}
	q.Apply(Meta{Index: length + 1}, &Checkout{Consumer: k, Credit: true, AutoAck: true})
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: length/benchBatch*benchBatch + benchBatch + 1, Messages: benchMessages()}
	limit := MsgID(0)
	for i := range uint64(2000) {
		q.Apply(Meta{Index: length + 2*i + 2}, e)
		e.First += benchBatch
		limit += benchBatch
		q.Apply(Meta{Index: length + 2*i + 3}, &Credit{Consumer: k, Limit: limit})
	}
	d := q.store.ready.level(int(DefaultPriority))
	if d.len() < length || len(d.blocks) > 4*length/blockLen {
		t.Errorf("%d messages, %d blocks", d.len(), len(d.blocks))
	}
	if err := q.check(); err != nil {
		t.Error(err)
	}
}

// TestSteadyStateAllocatesNothing takes messages from their enqueue to their settlement.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	if checked {
		t.Skip("the check after each command allocates; runs without the invariants tag")
	}
	q := New(1024, DefaultConfig())
	k := benchConsumer(q)
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: benchMessages()}
	settle := &Settle{Consumer: k, Ranges: make([]MsgIDRange, 1)}
	m := Meta{Index: 2, Now: 1}
	cycle := func() {
		for range 100 {
			q.Apply(m, e)
			e.First += benchBatch
			m.Index++
			settle.Ranges[0] = MsgIDRange{First: 1, Last: MsgID(e.First)}
			q.Apply(m, settle)
			m.Index++
			m.Now++
		}
	}
	cycle()
	if n := testing.AllocsPerRun(10, cycle); n != 0 {
		t.Errorf("%v allocations for %d messages", n, 100*benchBatch)
	}
}

// TestLinesAreBounded shows that a priority that no consumer uses any longer leaves no line.
func TestLinesAreBounded(t *testing.T) {
	q := New(1024, DefaultConfig())
	for i := range int32(10 * maxIdleLines) {
		k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: 1}, Tag: uint32(i + 1)}
		q.Apply(Meta{Index: uint64(i + 1)}, &Checkout{Consumer: k, Priority: i})
		q.Apply(Meta{Index: uint64(i + 1)}, &Cancel{Consumer: k})
	}
	if len(q.subs.waiters.lines) > maxIdleLines {
		t.Errorf("%d lines", len(q.subs.waiters.lines))
	}
	if err := q.check(); err != nil {
		t.Error(err)
	}
}

// TestClosedSessionsAreBounded shows which closed sessions are remembered, in a snapshot too: the
// last ones of the node's present epoch.
func TestClosedSessionsAreBounded(t *testing.T) {
	q := New(1024, DefaultConfig())
	index := uint64(0)
	get := func(session uint64) ReplyCode {
		index++
		r, _ := q.Apply(Meta{Index: index}, &Get{Session: SessionKey{Node: "n1", Epoch: 1, Session: session}})
		return r.Code
	}
	for s := range uint64(MaxClosedSessions + 1) {
		for range 2 { // a repeat takes no room
			index++
			q.Apply(Meta{Index: index}, &SessionClosed{Session: SessionKey{Node: "n1", Epoch: 1, Session: s}})
		}
	}
	restored, err := Restore(q.AppendSnapshot(nil))
	if err != nil {
		t.Fatal(err)
	}
	q = restored
	for s, want := range map[uint64]ReplyCode{
		0: CodeOK, 1: CodeUnknownConsumer, MaxClosedSessions: CodeUnknownConsumer, MaxClosedSessions + 1: CodeOK,
	} {
		if code := get(s); code != want {
			t.Errorf("Get of session %d is answered with code %d, want %d", s, code, want)
		}
	}
	index++
	q.Apply(Meta{Index: index}, &NodeUp{Node: "n1", Epoch: 2})
	if n := len(q.nodes.byID["n1"].closed); n != 0 {
		t.Errorf("a new life begins with %d closed sessions", n)
	}
}

// TestSourceRangesAreBounded shows that a target of a source whose first dead letter waits remembers a limited number of
// ranges of those that pass it (DL-25). What would make one more is refused; what joins others is stored, and so is the
// dead letter that all wait for, or none could be forgotten. Older rules have no limit.
func TestSourceRangesAreBounded(t *testing.T) {
	for rules, want := range map[Rules][]Seq{RulesSeventh: {2, lastRange + 4}, RulesThird: nil} {
		c := DefaultConfig()
		c.Rules = rules
		q := New(1024, c)
		s := q.transfers.of(2000)
		for i := range Seq(MaxSourceRanges) {
			s.stored = append(s.stored, SeqRange{First: 2*i + 4, Last: 2*i + 4})
		}
		transfer := func(index uint64, settled Seq, numbers ...Seq) Reply {
			tr := &Transfer{Source: 2000, Settled: settled}
			for _, n := range numbers {
				tr.DeadLetters = append(tr.DeadLetters, DeadLetter{Seq: n, NewMessage: NewMessage{Size: 1, TTLMs: Unlimited}})
			}
			r, _ := q.Apply(Meta{Index: index}, tr)
			r.Refused = slices.Clone(r.Refused)
			if err := q.check(); err != nil {
				t.Fatal(err)
			}
			return r
		}
		if o := q.Overview(); o.SourceRanges != MaxSourceRanges {
			t.Errorf("%d ranges are shown, want %d", o.SourceRanges, MaxSourceRanges)
		}
		r := transfer(1, 0, lastRange+4, 2, lastRange, lastRange+1, 1)
		if !slices.Equal(r.Refused, want) || r.Count != uint64(len(want)) || r.Stored != 4-len(want) {
			t.Errorf("rules %d: %+v, want refused %v", rules, r, want)
		}
		// The first one has left, and the next one is it.
		if r = transfer(2, 1, 2, lastRange+4); rules == RulesSeventh && (!slices.Equal(r.Refused, want[1:]) || r.Stored != 1) {
			t.Errorf("after the first dead letter: %+v", r)
		}
		if r = transfer(3, lastRange+1, lastRange+4); len(r.Refused) > 0 {
			t.Errorf("after all others: %+v", r)
		}
		if n := q.transfers.ranges(); n != 1 {
			t.Errorf("rules %d: %d ranges are left", rules, n)
		}
	}
}

// lastRange is the number that the last of MaxSourceRanges ranges consists of.
const lastRange Seq = 2*MaxSourceRanges + 2
