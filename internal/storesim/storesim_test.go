package storesim

import (
	"errors"
	"flag"
	"testing"
)

var (
	seed  = flag.Uint64("seed", 1, "first seed")
	seeds = flag.Int("seeds", 400, "how many seeds are run")
)

// Whatever is lost and replaced, as long as each group keeps a majority of its disks: no
// leader lacks what was committed, and the cluster is whole again when all has healed.
func TestSeeds(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 100)
	}
	var sum Result
	for s := *seed; s < *seed+uint64(n); s++ {
		r, err := Run(Config{Seed: s})
		if sum.add(r); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d seeds from %d on: %+v", n, *seed, sum)
	if sum.Moved == 0 || sum.Wiped == 0 || sum.Lost == 0 || sum.Replaced == 0 || sum.Forgotten == 0 && !testing.Short() {
		t.Errorf("faults did not happen: %+v", sum)
	}
}

// maxFaultSeeds is how many seeds may pass before a planted fault is found.
const maxFaultSeeds = 2000

// Each planted fault is found.
func TestPlantedFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		from  uint64 // first seed: higher for a fault that few seeds find
		steps int    // 0: the default; more for a fault that takes several changes of members
	}{
		{"no-stores", FaultNoStores, 1, 0},
		{"peers-alone", FaultPeersAlone, 1, 0},
		{"empty-member", FaultEmptyMember, 2500, 3000},
		{"refill", FaultRefill, 1, 0},
		{"no-base", FaultNoBase, 100, 6000},
	} {
		t.Run(c.name, func(t *testing.T) {
			for s := c.from; s < c.from+maxFaultSeeds; s++ {
				_, err := Run(Config{Seed: s, Fault: c.fault, Steps: c.steps})
				var v *Violation
				if errors.As(err, &v) && !v.Stuck {
					t.Logf("found by seed %d: %s", s, v.Text)
					return
				}
			}
			t.Errorf("%d seeds did not find it", maxFaultSeeds)
		})
	}
}
