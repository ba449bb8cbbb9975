package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/report"
	"github.com/quorate/quorate/chaos/target"
)

// The names of files that a run leaves in its directory.
const (
	HistoryFile = "history.jsonl.gz"
	HTMLFile    = "report.html"
	JSONFile    = "report.json"
)

// Leave judges the events of a run and leaves the history and the report in Config.Dir, with what
// the nodes logged around findings: so the cluster must not be closed yet. failed is why the run itself failed; nil:
// it did not. The error says what could not be written.
func Leave(ctx context.Context, cfg Config, events []history.Event, failed error) (check.Report, error) {
	cfg = cfg.withDefaults()
	found := check.Check(events)
	r := report.New(events, found, failed)
	if found.Verdict == check.Invalid {
		logs := map[string][]byte{}
		for _, n := range loggers(cfg.Cluster, events) {
			log, err := cfg.Cluster.Log(ctx, n, r.Settings.At)
			if err != nil {
				cfg.Log("the log of node %s is not in the report: %v", n, err)
			}
			logs[n] = log
		}
		r.AddLogs(logs)
	}
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return found, fmt.Errorf("run: %w", err)
	}
	return found, errors.Join(
		history.WriteFile(filepath.Join(cfg.Dir, HistoryFile), events),
		writeFile(filepath.Join(cfg.Dir, HTMLFile), r.HTML), writeFile(filepath.Join(cfg.Dir, JSONFile), r.JSON),
	)
}

// loggers returns the nodes that may have logged something: those that the cluster has, and those that faults have hit
// or added and that it no longer has.
func loggers(c target.Cluster, events []history.Event) []string {
	var out []string
	for _, n := range c.Nodes() {
		out = append(out, n.ID)
	}
	for i := range events {
		out = append(out, events[i].Nodes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// writeFile makes a file.
func writeFile(name string, content func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return errors.Join(content(f), f.Close())
}
