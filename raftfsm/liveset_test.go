package raftfsm

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
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

func TestLiveSetRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var want []BodyRef
		var indexes []uint64
		var b liveBuilder
		index := uint64(0)
		for range random.IntN(20) {
			index += 1 + random.Uint64N(100)
			indexes = append(indexes, index)
			slot := uint32(0)
			for range 1 + random.IntN(8) {
				slot += 1 + uint32(random.IntN(2)*random.IntN(50))
				want = append(want, BodyRef{index, slot})
			}
		}
		for _, r := range want {
			if err := b.add(r); err != nil {
				t.Fatal(err)
			}
		}
		b.finish()
		if got := collectLive(t, b.set); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if got := slices.Collect(b.set.indexes()); !slices.Equal(got, indexes) {
			t.Fatalf("indexes %v, want %v", got, indexes)
		}
		if b.entries != uint64(len(indexes)) || b.bodies != uint64(len(want)) {
			t.Fatalf("counted %d entries, %d bodies", b.entries, b.bodies)
		}
	}
}

func TestLiveSetRefusesDisorder(t *testing.T) {
	for name, refs := range map[string][]BodyRef{
		"index": {{2, 0}, {1, 0}}, "slot": {{1, 3}, {1, 2}}, "twice": {{1, 3}, {1, 3}},
		"entry 0": {{0, 0}}, "slot too high": {{1, maxLiveSlots}},
	} {
		var b liveBuilder
		var err error
		for _, r := range refs {
			err = errors.Join(err, b.add(r))
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzLiveSet(f *testing.F) {
	var b liveBuilder
	for _, r := range []BodyRef{{5, 0}, {5, 1}, {5, 7}, {900, 3}} {
		if err := b.add(r); err != nil {
			f.Fatal(err)
		}
	}
	b.finish()
	f.Add([]byte(b.set))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64 { // a few bytes may name millions of slots
			return
		}
		n := 0
		err := liveSet(data).each(func(_ uint64, slots []uint32) error {
			if n += len(slots); n > 1<<20 {
				return errors.New("enough")
			}
			return nil
		})
		for range liveSet(data).indexes() {
			continue
		}
		if err != nil {
			return
		}
		var again liveBuilder
		for _, r := range collectLive(t, data) {
			if err := again.add(r); err != nil {
				t.Fatal(err)
			}
		}
		again.finish()
		if len(again.set) > len(data) || len(data) == len(again.set) && !bytes.Equal(again.set, data) && collectLive(t, again.set) == nil {
			t.Fatalf("%x became %x", data, again.set)
		}
	})
}
