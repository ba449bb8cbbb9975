package raftfsm

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

func collectLive(t *testing.T, l liveSet) []BodyRef {
	t.Helper()
	var refs []BodyRef
	err := l.each(func(index uint64, slots []uint32) error {
		for _, s := range slots {
			refs = append(refs, BodyRef{index, s})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return refs
}

func liveOf(t *testing.T, runs ...BodyRun) *liveBuilder {
	t.Helper()
	var b liveBuilder
	for _, r := range runs {
		if err := b.add(r); err != nil {
			t.Fatal(err)
		}
	}
	b.finish()
	return &b
}

// randomRuns are runs as a machine gives them: entries far apart and side by side, with one
// run of slots and with several, alone and many at once.
func randomRuns(random *rand.Rand) (runs []BodyRun, want []BodyRef) {
	index := uint64(0)
	for range random.IntN(20) {
		index += 1 + random.Uint64N(3)*random.Uint64N(50)
		if random.IntN(3) == 0 {
			r := BodyRun{Index: index, Entries: 1 + random.Uint64N(5), Stride: 1 + random.Uint64N(2), Slot: uint32(random.IntN(2)), Slots: uint32(1 + random.IntN(2))}
			for range r.Entries {
				for slot := range r.Slots {
					want = append(want, BodyRef{index, r.Slot + slot})
				}
				index += r.Stride
			}
			index -= r.Stride
			runs = append(runs, r)
			continue
		}
		slot := uint32(0)
		for range 1 + random.IntN(4) {
			r := BodyRun{Index: index, Entries: 1, Slot: slot + uint32(random.IntN(2)*random.IntN(50)), Slots: uint32(1 + random.IntN(3))}
			for n := range r.Slots {
				want = append(want, BodyRef{index, r.Slot + n})
			}
			slot = r.Slot + r.Slots
			runs = append(runs, r)
		}
	}
	return runs, want
}

func TestLiveSetRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		runs, want := randomRuns(random)
		b := liveOf(t, runs...)
		if got := collectLive(t, b.set); !slices.Equal(got, want) {
			t.Fatalf("runs %v\ngot %v\nwant %v", runs, got, want)
		}
		var indexes, spanned []uint64
		for _, r := range want {
			indexes = append(indexes, r.Index)
		}
		indexes = slices.Compact(indexes)
		for first, last := range b.set.spans() {
			for i := first; i <= last; i++ {
				spanned = append(spanned, i)
			}
		}
		if !slices.Equal(spanned, indexes) {
			t.Fatalf("spans %v, want %v", spanned, indexes)
		}
		if b.entries != uint64(len(indexes)) || b.bodies != uint64(len(want)) {
			t.Fatalf("counted %d entries, %d bodies", b.entries, b.bodies)
		}
		for range b.set.spans() {
			break
		}
	}
}

// Regular entries take a few bytes, however many they are.
func TestLiveSetOfRegularEntriesIsSmall(t *testing.T) {
	var batches, singles, alternate []BodyRun
	for i := uint64(1); i <= 1000; i++ {
		batches = append(batches, BodyRun{Index: i, Entries: 1, Slots: 256})
		singles = append(singles, BodyRun{Index: i, Entries: 1, Slots: 1})
		alternate = append(alternate, BodyRun{Index: 2 * i, Entries: 1, Slots: 1})
	}
	for name, runs := range map[string][]BodyRun{
		"batches": batches, "single messages": singles, "every second entry": alternate,
		"one run": {{Index: 7, Entries: 1 << 40, Stride: 3, Slots: 64}},
	} {
		if n := len(liveOf(t, runs...).set); n > 16 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

func TestLiveSetRefusesDisorder(t *testing.T) {
	one := func(index uint64, slot uint32) BodyRun {
		return BodyRun{Index: index, Entries: 1, Slot: slot, Slots: 1}
	}
	for name, runs := range map[string][]BodyRun{
		"index": {one(2, 0), one(1, 0)}, "slot": {one(1, 3), one(1, 2)}, "twice": {one(1, 3), one(1, 3)},
		"entry 0": {one(0, 0)}, "slot too high": {one(1, maxLiveSlots)}, "no entries": {{Index: 1, Slots: 1}},
		"no slots": {{Index: 1, Entries: 1}}, "no stride": {{Index: 1, Entries: 2, Slots: 1}},
		"end of numbers": {{Index: 1, Entries: 1 << 33, Stride: 1 << 33, Slots: 1}},
		"within a run":   {{Index: 1, Entries: 5, Stride: 2, Slots: 1}, one(8, 0)},
		"end of a run":   {{Index: 1, Entries: 5, Stride: 2, Slots: 1}, one(9, 7)},
	} {
		var b liveBuilder
		var err error
		for _, r := range runs {
			err = errors.Join(err, b.add(r))
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzLiveSet(f *testing.F) {
	f.Add([]byte{5, 1, 2, 0, 2, 5, 1, 200, 7, 3, 2, 1, 0, 9})
	random := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		runs, _ := randomRuns(random)
		var b liveBuilder
		for _, r := range runs {
			if err := b.add(r); err != nil {
				f.Fatal(err)
			}
		}
		b.finish()
		f.Add([]byte(b.set))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64 { // a few bytes may name millions of slots
			return
		}
		entries, slots := uint64(0), uint64(0)
		err := liveSet(data).groups(func(g liveGroup) error {
			for i := 0; i < len(g.runs); i += 2 {
				slots += uint64(g.runs[i+1] - g.runs[i])
			}
			if entries += g.entries; entries > 1<<12 || slots > 1<<8 {
				return errors.New("enough")
			}
			return nil
		})
		if err != nil {
			return
		}
		var again liveBuilder
		want := collectLive(t, data)
		for _, r := range want {
			if err := again.add(BodyRun{Index: r.Index, Entries: 1, Slot: r.Slot, Slots: 1}); err != nil {
				t.Fatal(err)
			}
		}
		again.finish()
		if got := collectLive(t, again.set); !slices.Equal(got, want) {
			t.Fatalf("%x became %x", data, again.set)
		}
	})
}
