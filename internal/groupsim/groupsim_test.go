package groupsim

import (
	"flag"
	"testing"
	"testing/synctest"
)

var (
	seed  = flag.Uint64("seed", 1, "first seed")
	seeds = flag.Int("seeds", 40, "how many seeds are run")
)

// Whatever happens to the power, the disks and the links of a group's members: they do not forget what they have said,
// and what was confirmed is there.
func TestSeeds(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 10)
	}
	var sum Result
	for s := *seed; s < *seed+uint64(n); s++ {
		c := Config{Seed: s, Dir: t.TempDir()}
		synctest.Test(t, func(t *testing.T) {
			r, err := Run(c)
			sum.Add(r)
			if err != nil {
				t.Fatal(err)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d seeds from %d on: %+v", n, *seed, sum)
	if sum.Confirmed < 100*n || sum.Terms < 5*n || sum.Cuts < 10*n || sum.AtVotes == 0 || sum.AtEntries == 0 || sum.Hangs == 0 && !testing.Short() {
		t.Errorf("too little happened: %+v", sum)
	}
}
