package catalog

import (
	"maps"
	"math"
	"math/rand/v2"
	"testing"
)

// Differences between trees are those of maps, whatever was done between them.
func TestChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 100 {
		var old tree[int, int]
		was := map[int]int{}
		keys := 1 << r.IntN(13)
		change := func(t tree[int, int], m map[int]int) tree[int, int] {
			k := r.IntN(keys)
			if r.IntN(3) == 0 {
				delete(m, k)
				return t.without(k)
			}
			m[k] = 1 + r.IntN(3)
			return t.set(k, m[k])
		}
		for range r.IntN(2 * keys) {
			old = change(old, was)
		}
		now, is := old, maps.Clone(was)
		for range 1 << r.IntN(12) >> 1 {
			now = change(now, is)
		}
		type pair struct{ was, is int }
		want := map[pair]int{}
		for k := range keys {
			if was[k] != is[k] {
				want[pair{was[k], is[k]}]++
			}
		}
		got := map[pair]int{}
		changes(old, now, func(a, b int) bool { got[pair{a, b}]++; return true })
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: changes %v, want %v", round, got, want)
		}
	}
}

// One change of many looks at a few nodes: that is what views are compared for. A value
// that differs from itself counts the entries that were looked at.
func TestChangesAreCheap(t *testing.T) {
	var old tree[int, float64]
	for k := range 100_000 {
		old = old.set(k, math.NaN())
	}
	seen := 0
	changes(old, old.set(77_777, math.NaN()), func(float64, float64) bool { seen++; return true })
	if seen == 0 || seen > fanOut {
		t.Errorf("%d of 100,000 entries were looked at for one change, want at most the %d of a leaf", seen, fanOut)
	}
}
