package raftfsm

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// boltModel is what a storage should hold, in maps.
type boltModel struct {
	log      map[uint64]*raft.Log
	dropped  map[uint64]*raft.Log // below the first index
	next     uint64               // index after the last entry, or where the log continues
	term     uint64
	restarts int
}

func (m *boltModel) bounds() (first, last uint64) {
	if len(m.log) == 0 {
		return 0, 0
	}
	keys := slices.Sorted(maps.Keys(m.log))
	return keys[0], keys[len(keys)-1]
}

// Random operations, in the order in which raft may ask for them, against the model, with
// the file closed and opened again now and then.
func TestBoltAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		f := newBoltFixture(t)
		m := &boltModel{log: map[uint64]*raft.Log{}, dropped: map[uint64]*raft.Log{}, next: 1}
		for step := range 120 {
			m.step(f, random)
			m.compare(f, seed, step)
		}
		if m.restarts == 0 {
			t.Error("the file was never opened again")
		}
	}
}

func (m *boltModel) step(f *boltFixture, random *rand.Rand) {
	first, last := m.bounds()
	switch random.IntN(8) {
	case 0: // a suffix is replaced by another leader, perhaps from the first entry on
		if last == 0 {
			return
		}
		from := first + random.Uint64N(last-first+1)
		f.ok(f.DeleteRange(from, last))
		for i := from; i <= last; i++ {
			if from == first {
				m.dropped[i] = m.log[i] // the whole log: until others take its place
			}
			delete(m.log, i)
		}
		m.next = from
	case 1: // compaction
		if last == 0 || last == first {
			return
		}
		to := first + random.Uint64N(last-first)
		f.ok(f.DeleteRange(first, to))
		for i := first; i <= to; i++ {
			m.dropped[i] = m.log[i]
			delete(m.log, i)
		}
	case 2: // after a snapshot
		f.ok(f.Retain(m.next-1, none))
		maps.DeleteFunc(m.dropped, func(i uint64, _ *raft.Log) bool { return i < m.next })
	case 3: // a snapshot from the leader
		if last != 0 {
			f.ok(f.DeleteRange(first, last))
		}
		clear(m.log)
		clear(m.dropped)
		f.ok(f.Retain(^uint64(0), none))
		m.next += random.Uint64N(10) + 1
	case 4:
		f.reopen()
		m.restarts++
	default:
		m.term++
		logs := testLogs(m.next, m.next+random.Uint64N(5), m.term)
		f.ok(f.StoreLogs(logs))
		maps.DeleteFunc(m.dropped, func(i uint64, _ *raft.Log) bool { return i >= m.next })
		for _, l := range logs {
			m.log[l.Index] = l
		}
		m.next = logs[len(logs)-1].Index + 1
	}
}

func (m *boltModel) compare(f *boltFixture, seed uint64, step int) {
	f.t.Helper()
	wantFirst, wantLast := m.bounds()
	first, err1 := f.FirstIndex()
	last, err2 := f.LastIndex()
	f.ok(errors.Join(err1, err2))
	if first != wantFirst || last != wantLast {
		f.t.Fatalf("seed %d step %d: log %d..%d instead of %d..%d", seed, step, first, last, wantFirst, wantLast)
	}
	for i := uint64(1); i < m.next+5; i++ {
		var got raft.Log
		err := f.GetLog(i, &got)
		want := m.log[i]
		if want == nil && !errors.Is(err, raft.ErrLogNotFound) || want != nil && (err != nil || string(got.Data) != string(want.Data)) {
			f.t.Fatalf("seed %d step %d: entry %d is %q, %v", seed, step, i, got.Data, err)
		}
		if want == nil {
			want = m.dropped[i]
		}
		err = f.Entry(i, &got)
		if want == nil && !errors.Is(err, raft.ErrLogNotFound) || want != nil && (err != nil || string(got.Data) != string(want.Data)) {
			f.t.Fatalf("seed %d step %d: Entry(%d) is %q, %v", seed, step, i, got.Data, err)
		}
	}
}
