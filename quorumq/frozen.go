package quorumq

import "iter"

// BodyRun names the bodies at Slots places from Slot on, in each of Entries entries from
// Index on, which are Stride apart; Stride is 1 or more if there are several.
type BodyRun struct {
	Index, Entries, Stride uint64
	Slot, Slots            uint32
}

// Frozen is a queue's state of one moment. It is used on one goroutine, which may be
// another than the queue's.
type Frozen struct {
	state []byte
	live  []BodyRun
}

// Freeze returns the state of this moment.
func (q *Queue) Freeze() *Frozen {
	f := &Frozen{state: q.AppendSnapshot(nil)}
	for r := range q.Live() {
		if n := len(f.live); n > 0 && f.live[n-1].Index == r.Index && f.live[n-1].Slot+f.live[n-1].Slots == r.Slot {
			f.live[n-1].Slots++
			continue
		}
		f.live = append(f.live, BodyRun{Index: r.Index, Entries: 1, Slot: r.Slot, Slots: 1})
	}
	return f
}

// AppendSnapshot appends the state; see Queue.AppendSnapshot.
func (f *Frozen) AppendSnapshot(b []byte) []byte { return append(b, f.state...) }

// Live yields every body that the state refers to, each once, ascending by index, and
// within an entry by slot. A run of several entries ends before the next begins.
func (f *Frozen) Live() iter.Seq[BodyRun] {
	return func(yield func(BodyRun) bool) {
		for _, r := range f.live {
			if !yield(r) {
				return
			}
		}
	}
}
