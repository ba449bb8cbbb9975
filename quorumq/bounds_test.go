package quorumq

import "testing"

// TestMarksAreBounded shows that what was taken out of the middle does not stay: one
// message that lives on pins no memory of those around it.
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
	d := &q.ready[0]
	if d.len() != count/1000 {
		t.Fatalf("%d messages are left", d.len())
	}
	if chunks := len(d.chunks) - d.first; chunks > 4 {
		t.Errorf("%d messages take %d chunks", d.len(), chunks)
	}
	if err := q.check(); err != nil {
		t.Error(err)
	}
}

// TestStaleExpiriesAreBounded shows that messages that are consumed before they expire
// leave no trace.
func TestStaleExpiriesAreBounded(t *testing.T) {
	q := New(1024, DefaultConfig())
	k := benchConsumer(q)
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: benchMessages()}
	for i := range e.Messages {
		e.Messages[i].TTLMs = int64(1_000_000 - i)
	}
	for i := range uint64(1000) {
		q.Apply(Meta{Index: 2*i + 2}, e)
		e.First += benchBatch
		q.Apply(Meta{Index: 2*i + 3}, &Settle{Consumer: k, Ranges: []MsgIDRange{{First: 1, Last: MsgID(e.First)}}})
	}
	if n := len(q.readyDue.heap); n > 2*maxStale {
		t.Errorf("%d expiries for %d messages", n, q.readyLen())
	}
}

// TestStuckMessagePinsNoWindow shows that a consumer that holds one message for ever
// and settles all others stays small.
func TestStuckMessagePinsNoWindow(t *testing.T) {
	q := New(1024, DefaultConfig())
	k := benchConsumer(q)
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: benchMessages()}
	for i := range uint64(1000) {
		q.Apply(Meta{Index: 2*i + 2}, e)
		e.First += benchBatch
		q.Apply(Meta{Index: 2*i + 3}, &Settle{Consumer: k, Ranges: []MsgIDRange{{First: 2, Last: MsgID(e.First)}}})
	}
	w := &q.consumer(k).held
	if w.live != 1 || len(w.items) > 1000 {
		t.Errorf("%d messages take %d places", w.live, len(w.items))
	}
	if ds := q.Assigned(nil, k, 0); len(ds) != 1 || ds[0].MsgID != 1 {
		t.Errorf("holds %v", ds)
	}
}

// TestSteadyStateAllocatesNothing runs whole lives of messages.
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
