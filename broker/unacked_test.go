package broker

import (
	"math/rand/v2"
	"testing"
)

// After any decisions, count equals the number of ids in a map of the unacked
// ones.
func TestUnackedCount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1)) // a test
		var u unacked
		open := map[uint64]bool{}
		last := uint64(0)
		for range 100 {
			switch n := r.Uint64N(last + 1); r.IntN(3) {
			case 0:
				for range r.IntN(200) {
					last++
					open[last] = true
				}
				u.deliveredUpTo(last)
			case 1:
				if u.decide(n) != open[n] {
					t.Fatalf("seed %d: decide(%d) = %v", seed, n, !open[n])
				}
				delete(open, n)
			case 2:
				u.decideUpTo(n)
				for id := range open {
					if id <= n {
						delete(open, id)
					}
				}
			}
			if u.count() != uint64(len(open)) {
				t.Fatalf("seed %d: %d, want %d", seed, u.count(), len(open))
			}
		}
	}
}
