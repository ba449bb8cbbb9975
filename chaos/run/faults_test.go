package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/netns"
	"github.com/quorate/quorate/chaos/workload"
)

// within returns a cluster whose processes run, in namespaces of its own; nil: the test has run there. It skips the test
// where there is no such cluster.
func within(ctx context.Context, t *testing.T, settings string) *netns.Cluster {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join("..", "..", "bin", "quorate"))
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil || testing.Short() {
		t.Skipf("starts processes of bin/quorate, which `make build` makes; without -short (%v)", err)
	}
	if err := netns.Possible(); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	if !netns.Inside() {
		if err := netns.Again(ctx, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1"); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	c, err := netns.Open(ctx, netns.Options{Binary: binary, OtherBinary: binary, Dir: t.TempDir(), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := c.Cluster.Cluster.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// Every kind of fault is put in once, one after another, is felt, and heals; meanwhile nothing is
// lost.
func TestEveryFault(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if c := within(ctx, t, "timeouts:\n  disk_hang: 3s\n"); c != nil {
		everyFault(ctx, t, c)
	}
}

// everyFault puts in what the cluster's driver can.
func everyFault(ctx context.Context, t *testing.T, c target.Cluster) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := history.New()
	cfg := Config{Cluster: c, Workloads: []workload.Kind{workload.Publish()}, Length: 4 * time.Minute, Rate: 200, History: h, Log: t.Logf}
	only := os.Getenv("QUORATE_TEST_FAULTS") // names with commas between, to look at some closely
	for i, k := range fault.Kinds() {
		if err := k.Needs(c); err != nil {
			t.Logf("%s is not put in: %v", k.Name, err)
			continue
		}
		if only != "" && !strings.Contains(","+only+",", ","+k.Name+",") {
			continue
		}
		s := fault.Step{Kind: k.Name, Role: fault.Leader, For: min(max(time.Second, k.Shortest), k.Longest), Pick: uint64(i) + 1<<32}
		if len(k.Roles) > 0 {
			s.Role = k.Roles[0]
		}
		cfg.Steps = append(cfg.Steps, s)
	}
	last := len(cfg.Steps)
	cfg.Meanwhile = func(ctx context.Context) error { // until the last fault is healed, and a moment longer
		for {
			healed := 0
			for _, e := range h.Events() {
				if e.Kind == history.Healed {
					healed++
				}
			}
			if healed == last {
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.New("not all faults were healed in time")
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	events, err := Run(ctx, cfg)
	if err != nil {
		t.Error(err)
	}
	report := check.Check(events)
	t.Log(report.String())
	if report.Verdict != check.Valid || report.Counts.Faults != last {
		t.Errorf("the history is %s: %s; %d of %d faults", report.Verdict, report.Why, report.Counts.Faults, last)
	}
	chance := map[string]bool{} // the bit may be where nobody reads
	for _, k := range fault.Kinds() {
		chance[k.Name] = k.Chance
	}
	for _, e := range report.Unfelt {
		if kind := cfg.Steps[e.Fault-1].Kind; !chance[kind] {
			t.Errorf("%s was not felt: %s", kind, e.Note)
		}
	}
}
