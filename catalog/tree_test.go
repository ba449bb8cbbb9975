package catalog

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// A tree behaves as a sorted map, and every older tree stays what it was.
func TestTreeAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var now tree[int, int]
	want := map[int]int{}
	type version struct {
		tree tree[int, int]
		want map[int]int
	}
	var old []version
	for i := range 20_000 {
		k := r.IntN(3000)
		// Grow first, then shrink to nothing, so that whole branches come and go.
		if r.IntN(20_000) > i {
			now, want[k] = now.set(k, i), i
		} else {
			now = now.without(k)
			delete(want, k)
		}
		if i%2000 == 0 {
			old = append(old, version{now, maps.Clone(want)})
		}
	}
	for k := range 3000 {
		now = now.without(k)
	}
	old = append(old, version{now, map[int]int{}})
	for _, v := range old {
		keys := slices.Sorted(maps.Keys(v.want))
		if v.tree.len() != len(keys) {
			t.Fatalf("len %d, want %d", v.tree.len(), len(keys))
		}
		var got []int
		v.tree.each(func(k, n int) bool {
			if n != v.want[k] {
				t.Fatalf("key %d has %d, want %d", k, n, v.want[k])
			}
			got = append(got, k)
			return true
		})
		if !slices.Equal(got, keys) {
			t.Fatalf("keys %v, want %v", got, keys)
		}
		for range 100 {
			k := r.IntN(3001)
			n, ok := v.tree.get(k)
			if w, has := v.want[k]; ok != has || n != w {
				t.Fatalf("get %d = %d, %v; want %d, %v", k, n, ok, w, has)
			}
			at, _ := slices.BinarySearch(keys, k)
			var from []int
			v.tree.from(k, func(k, _ int) bool {
				from = append(from, k)
				return len(from) < 5
			})
			if !slices.Equal(from, keys[at:min(at+5, len(keys))]) {
				t.Fatalf("from %d: %v", k, from)
			}
		}
	}
}
