package nodesim

import (
	"flag"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 1, "first seed")
	seeds = flag.Int("seeds", 4, "how many seeds are run")
)

// sideBySide is how many seeds run at a time: nodes mostly wait.
const sideBySide = 4

// logEnv names the variable that makes the nodes log to the standard error.
const logEnv = "QUORATE_TEST_LOG"

// Whatever happens to real nodes: what was confirmed and declared stays, nothing is invented, a term has one
// leader, and the cluster is whole again when all has healed.
func TestSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real nodes for seconds")
	}
	start := time.Now()
	var (
		mu      sync.Mutex
		next    int
		failed  error
		sum     Result
		workers sync.WaitGroup
	)
	for range sideBySide {
		workers.Go(func() {
			for {
				mu.Lock()
				s, enough := *seed+uint64(next), next >= *seeds || failed != nil
				next++
				mu.Unlock()
				if enough {
					return
				}
				c := Config{Seed: s, Dir: t.TempDir()}
				if os.Getenv(logEnv) != "" {
					c.Log = slog.NewTextHandler(os.Stderr, nil).WithAttrs([]slog.Attr{slog.String("seed", strconv.FormatUint(s, 10))})
				}
				r, err := Run(t.Context(), c)
				mu.Lock()
				sum.Confirmed, sum.Cuts, sum.Stops = sum.Confirmed+r.Confirmed, sum.Cuts+r.Cuts, sum.Stops+r.Stops
				sum.Wipes, sum.Changes, sum.Queues = sum.Wipes+r.Wipes, sum.Changes+r.Changes, sum.Queues+r.Queues
				if err != nil && failed == nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds from %d on in %v: %+v", *seeds, *seed, time.Since(start).Round(time.Second), sum)
	if failed != nil {
		t.Fatal(failed)
	}
	if sum.Confirmed == 0 || sum.Cuts == 0 {
		t.Error("nothing happened")
	}
}
