package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target/local"
	"github.com/quorate/quorate/chaos/workload"
)

// promises are the guarantees that each workload must be able to break.
func promises() map[string][]string {
	return map[string][]string{
		"at-most-once":   {"no confirmed message is lost", "nothing is stored twice", "dead letters arrive exactly once"},
		"churn":          {"no confirmed message is lost", "nothing is stored twice", "a queue that is declared again is a new one"},
		"crashes":        {"no confirmed message is lost", "nothing is stored twice", "what is settled stays settled", "redeliveries have a cause"},
		"delayed":        {"no confirmed message is lost", "nothing expires early or is delivered late"},
		"expiry-chain":   {"no confirmed message is lost", "nothing expires early or is delivered late", "dead letters arrive exactly once"},
		"priorities":     {"no confirmed message is lost", "higher priorities come first"},
		"transactions":   {"no confirmed message is lost", "nothing is invented", "what is settled stays settled", "each publisher's order holds", "transactions are whole"},
		"import":         {"no confirmed message is lost", "nothing is stored twice", "each publisher's order holds"},
		"producers":      {"no confirmed message is lost", "nothing is stored twice", "each publisher's order holds"},
		"redrive":        {"operators' moves lose and double nothing", "what is settled stays settled", "nothing is invented"},
		"large":          {"no confirmed message is lost", "nothing is invented"},
		"late-consumers": {"no confirmed message is lost", "nothing expires early or is delivered late", "dead letters arrive exactly once"},
		"members":        {"no confirmed message is lost", "nothing is stored twice", "what is settled stays settled", "each publisher's order holds"},
		"new-queues":     {"no confirmed message is lost", "nothing is invented", "nothing is stored twice", "each publisher's order holds"},
		"single-active":  {"no confirmed message is lost", "redeliveries have a cause", "a single active consumer is never two"},
		"publish": {
			"no confirmed message is lost", "nothing is invented", "nothing is stored twice", "what is settled stays settled",
			"each publisher's order holds", "dead letters arrive exactly once",
		},
		"resting": {
			"no confirmed message is lost", "nothing is stored twice", "what is settled stays settled", "each publisher's order holds",
			"nothing expires early or is delivered late", "dead letters arrive exactly once",
		},
		"retry-loop": {"no confirmed message is lost", "nothing is invented", "deaths are counted"},
		"retry": {
			"no confirmed message is lost", "nothing is stored twice", "redeliveries have a cause", "the delivery limit holds",
			"nothing expires early or is delivered late", "dead letters arrive exactly once", "returned messages come first",
		},
	}
}

// All workloads run side by side on one cluster of processes: first without faults, then while
// leaders are killed. Both histories are valid, and each workload's own part could break what it
// promises.
func TestWorkloads(t *testing.T) {
	binary := filepath.Join("..", "..", "bin", "quorate")
	if _, err := os.Stat(binary); err != nil || testing.Short() {
		t.Skipf("starts processes of %s, which `make build` makes; without -short (%v)", binary, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	dir, keep := t.TempDir(), os.Getenv("QUORATE_TEST_HISTORY") // a directory, to look at what was seen
	if keep != "" {
		dir = keep
	}
	settings := fmt.Sprintf("timeouts:\n  hibernate: %v\n", workload.HibernateAfter)
	nodes, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: dir, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nodes.Kill)
	if err := nodes.Start(ctx); err != nil {
		t.Fatal(err)
	}
	kinds := workload.Kinds()
	if only := os.Getenv("QUORATE_TEST_WORKLOADS"); only != "" { // names with commas between, to look at some closely
		kinds = slices.DeleteFunc(kinds, func(k workload.Kind) bool { return !slices.Contains(strings.Split(only, ","), k.Name) })
	}
	for _, part := range []struct {
		name  string
		steps []fault.Step
	}{
		{"well", nil},
		{"kills", []fault.Step{
			{At: 2 * time.Second, Kind: "kill", Role: fault.Leader, For: time.Second},
			{At: 6 * time.Second, Kind: "kill", Role: fault.Leader, For: time.Second},
		}},
	} {
		began := time.Now()
		events, err := Run(ctx, Config{
			Cluster: &local.Cluster{Cluster: nodes}, Workloads: kinds, Length: longestPart, Steps: part.steps, Prefix: part.name, Log: t.Logf,
			Enough: func(events []history.Event) bool { // the slower the machine, the longer that takes
				return healings(events) == len(part.steps) && !slices.ContainsFunc(kinds, func(k workload.Kind) bool {
					_, lacks := judged(part.name+"."+k.Name, k.Name, events)
					return len(lacks) > 0
				})
			},
		})
		t.Logf("%s: took %v", part.name, time.Since(began).Round(100*time.Millisecond))
		if err != nil {
			t.Error(err)
		}
		report := check.Check(events)
		t.Log(report.String())
		for _, g := range report.Guarantees {
			if g.Missing != "" || len(g.Broken) > 0 && g.Name != "every queue is led again" { // which a busy machine breaks
				t.Errorf("%s: %s: broken %d times, missing %q", part.name, g.Name, len(g.Broken), g.Missing)
			}
		}
		if report.Counts.Confirmed == 0 || len(part.steps) > 0 && report.Counts.Faults == 0 {
			t.Errorf("%s: %d messages were confirmed, %d of %d faults", part.name, report.Counts.Confirmed, report.Counts.Faults, len(part.steps))
		}
		for _, e := range report.Unfelt {
			if e.Fault == 0 {
				t.Errorf("workload %s: %s", e.Queue, e.Note)
			}
		}
		for _, k := range kinds {
			canBreak(t, part.name+"."+k.Name, k.Name, events)
		}
		if keep != "" {
			write(t, filepath.Join(keep, part.name+".jsonl"), events)
		}
	}
}

// write keeps a history.
func write(t *testing.T, name string, events []history.Event) {
	t.Helper()
	f, err := os.Create(name)
	if err == nil {
		err = history.Write(f, events)
		_ = f.Close() // what matters is written
	}
	if err != nil {
		t.Error(err)
	}
}

// longestPart limits how long the workloads go on until each could have broken what it promises.
const longestPart = time.Minute

// healings counts the faults that were healed.
func healings(events []history.Event) (n int) {
	for i := range events {
		if events[i].Kind == history.Healed {
			n++
		}
	}
	return n
}

// canBreak checks that the part of a history that is about one workload could break its promises.
func canBreak(t *testing.T, prefix, kind string, events []history.Event) {
	t.Helper()
	c, lacks := judged(prefix, kind, events)
	for _, name := range lacks {
		t.Errorf("%s: nothing in its history could break %q", prefix, name)
	}
	if len(promises()[kind]) == 0 {
		t.Errorf("workload %s promises nothing", kind)
	}
	t.Logf("%-24s published %d, confirmed %d, refused %d, unknown %d, delivered %d (%d again), dead letters %d",
		prefix, c.Published, c.Confirmed, c.Refused, c.Unknown, c.Delivered, c.Redelivered, c.DeadLetters)
}

// judged returns what is counted in the part of a history that is about one workload, and which of its promises nothing in
// there could have broken. Some can be judged only when all is consumed: they are left out before.
func judged(prefix, kind string, events []history.Event) (c check.Counts, lacks []string) {
	publishers := map[int]bool{}
	about := func(queue string) bool { return strings.HasPrefix(queue, prefix+".") }
	var own []history.Event
	for _, e := range events {
		if slices.ContainsFunc(e.Queues, about) {
			publishers[e.Publisher] = true
		}
		if about(e.Queue) || publishers[e.Publisher] || e.Op != nil && about(e.Op.Name) {
			own = append(own, e)
		}
	}
	report := check.Check(own)
	for _, name := range promises()[kind] {
		i := slices.IndexFunc(report.Guarantees, func(g check.Guarantee) bool { return g.Name == name })
		if i < 0 || report.Guarantees[i].Checked == 0 && report.Guarantees[i].Missing == "" {
			lacks = append(lacks, name)
		}
	}
	return report.Counts, lacks
}
