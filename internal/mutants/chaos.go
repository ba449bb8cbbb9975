package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	harness "github.com/quorate/quorate/chaos/run"
)

// chaosLimit bounds the runs of real processes of one mutant.
const chaosLimit = 3 * time.Minute

// timed is the rule of guarantees that a busy machine breaks too: they count for mutants that name it.
const timed = "G11"

// chaos runs real processes of the mutant with the workloads and faults of its plans, one after another until one finds
// it, each after the same run without the mutant was valid.
func (d *detector) chaos(ctx context.Context, m *mutant, overlay string) (by string, err error) {
	if d.harness == "" {
		d.harness = filepath.Join(d.dir, "quoratectl")
		if err := d.build(ctx, "./cmd/ctl", d.harness, ""); err != nil {
			return "", err
		}
	}
	left := chaosLimit
	for _, plan := range m.how[chaos].args {
		if err := d.valid(ctx, m, plan); err != nil {
			return "", fmt.Errorf("the plan %s: %w", plan, err)
		}
		begin := time.Now()
		if by, err = d.chaosRun(ctx, m, overlay, plan, left); by != "" || err != nil {
			break
		}
		left -= time.Since(begin)
	}
	return by, err
}

// valid returns why a plan cannot be used: it finds something without a mutant.
func (d *detector) valid(ctx context.Context, m *mutant, plan string) error {
	if _, known := d.baselines[plan]; !known {
		by, err := d.chaosRun(ctx, m, "", plan, chaosLimit)
		if err == nil && by != "" {
			err = fmt.Errorf("it finds %s without a mutant", by)
		}
		d.baselines[plan] = err
	}
	return d.baselines[plan]
}

// chaosRun builds the nodes and runs them, for no longer than limit.
func (d *detector) chaosRun(ctx context.Context, m *mutant, overlay, plan string, limit time.Duration) (by string, err error) {
	dir, err := os.MkdirTemp(d.dir, "run-")
	if err != nil {
		return "", err
	}
	defer clean(dir)
	binary := filepath.Join(dir, "quorate")
	if err := d.build(ctx, "./cmd/node", binary, overlay); err != nil {
		return "", err
	}
	steps, err := os.ReadFile(planFile(d.root, plan))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "run.json"), steps, 0o600)
	}
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, failed := d.run(ctx, d.harness, "chaos", "run", "--stop", "--replay", dir, "--binary", binary, "--out", filepath.Join(dir, "nodes"))
	events, err := history.ReadFile(filepath.Join(dir, "nodes", harness.HistoryFile))
	if err != nil {
		return "", errors.Join(failed, err, errors.New(last(out)))
	}
	report := check.Check(events)
	for _, g := range report.Guarantees {
		if len(g.Broken) > 0 && (g.Rule != timed || strings.Contains(m.breaks, timed)) {
			return fmt.Sprintf("%s (%s), %d times", g.Name, g.Rule, len(g.Broken)), nil
		}
	}
	switch {
	case failed == nil || report.Verdict == check.Invalid:
		return "", nil
	case report.Verdict == check.Undecidable:
		return "no verdict: " + report.Why, nil
	default:
		return "the run fails: " + last(out), nil
	}
}

// planFile returns the file of a plan, which is what quoratectl chaos run leaves as run.json.
func planFile(root, plan string) string { return filepath.Join(root, patches, "plans", plan+".json") }

// last returns the last line of an output with a reason.
func last(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "quoratectl: ") {
			return lines[i]
		}
	}
	return lines[len(lines)-1]
}
