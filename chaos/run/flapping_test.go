package run

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/internal/wait"
)

// The node that leads the queues comes and goes, until connections with it were given up that stood still, another node
// finds it unsteady, and other nodes lead all queues, while clients make progress. Nothing is lost.
func TestFlappingLeader(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := within(ctx, t, "")
	if c == nil {
		return
	}
	h := history.New()
	events, err := Run(ctx, Config{
		Cluster: c, Workloads: []workload.Kind{workload.Publish()}, Length: 4 * time.Minute, Rate: 400, History: h, Log: t.Logf,
		Steps: []fault.Step{{Kind: "flapping", Role: fault.Leader, At: 2 * time.Second, For: 3 * time.Minute}},
		Meanwhile: func(ctx context.Context) error {
			for {
				missing := flapped(ctx, c, h.Events())
				if missing == "" {
					return nil
				}
				if wait.For(ctx, 200*time.Millisecond) != nil {
					return fmt.Errorf("while a leader's node came and went, %s", missing)
				}
			}
		},
	})
	if err != nil {
		t.Error(err)
	}
	report := check.Check(events)
	t.Log(report.String())
	if report.Verdict != check.Valid || report.Counts.Faults != 1 {
		t.Errorf("the history is %s: %s; %d faults, want 1", report.Verdict, report.Why, report.Counts.Faults)
	}
}

// flapped returns what has not happened yet since the fault; "": all has.
func flapped(ctx context.Context, c target.Cluster, events []history.Event) (missing string) {
	var node string
	leaders := map[string]string{} // by queue
	confirmed := 0                 // since the fault
	for i := range events {
		switch e := &events[i]; e.Kind {
		case history.Fault:
			node = e.Nodes[0]
		case history.Leader:
			leaders[e.Queue] = e.Node
		case history.Confirmed:
			if node != "" {
				confirmed++
			}
		default:
		}
	}
	if node == "" || confirmed == 0 {
		return "nothing was confirmed after the fault"
	}
	var resets, unsteady float64
	for _, n := range c.Nodes() {
		r, err := target.Metric(ctx, c, n.ID, "quorate_link_resets_total")
		if err != nil {
			return err.Error()
		}
		resets += r
		if n.ID == node {
			continue
		}
		u, err := target.Metric(ctx, c, n.ID, "quorate_links_unsteady")
		if err != nil {
			return err.Error()
		}
		unsteady = max(unsteady, u)
	}
	if resets == 0 {
		return "no connection was given up"
	}
	if unsteady == 0 {
		return "no node found it unsteady"
	}
	for q, l := range leaders {
		if l == node || l == "" {
			return fmt.Sprintf("queue %s has leader %q", q, l)
		}
	}
	return ""
}
