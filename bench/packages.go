package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// suite is the benchmarks of one package and the rows that come from them.
type suite struct {
	pkg, pattern, benchTime string
	figures                 []figure
}

// figure makes a row from one metric of one benchmark.
type figure struct {
	bench, metric string
	name, unit    string
	scale         float64 // factor from the metric to the row's value; 0: 1
	aim           string
	with          string  // the row to compare with; "": none, unless limit is set
	limit         float64 // the aim as a number, to compare with; 0: none
}

// Commands for one message in BenchmarkEnqueueAssignSettle: an Enqueue and a Settle for each batch.
const (
	commandsBatch1  = 2
	commandsBatch64 = 2.0 / 64
	readyLimit      = 64 // bytes of machine state for each ready message
)

// queueSuite lists the figures of the queue machine. The table shows a row with `with` beside the
// row that it names.
func queueSuite() suite {
	const lives64 = "queue machine, batches of 64"
	s := suite{
		pkg: "./quorumq", benchTime: "500ms",
		pattern: "^Benchmark(EnqueueAssignSettle|ReadyState|Snapshot|Expire|Decode|FanOut|Reject)$",
	}
	const batch64, batch1 = "EnqueueAssignSettle/batch64", "EnqueueAssignSettle/batch1"
	rate, each := "messages/s", "allocs/op"
	s.figures = []figure{
		{bench: batch64, metric: rate, name: lives64, unit: rate, aim: higher},
		{bench: batch1, metric: rate, name: "queue machine, one by one", unit: rate, aim: higher, with: lives64},
		{bench: batch64 + "ttl", metric: rate, name: "queue machine, batches of 64 with TTL", unit: rate, aim: higher, with: lives64},
		{bench: "FanOut", metric: rate, name: "queue machine, 200 consumers, 32 priorities", unit: rate, aim: higher, with: lives64},
		{bench: batch64, metric: rate, scale: commandsBatch64, name: "queue machine, batches of 64, commands", unit: "commands/s", aim: higher},
		{bench: batch1, metric: rate, scale: commandsBatch1, name: "queue machine, one by one, commands", unit: "commands/s", aim: higher},
		{bench: batch64, metric: each, name: "queue machine, batches of 64, allocations", unit: "allocs/message", aim: "0"},
		{bench: batch1, metric: each, name: "queue machine, one by one, allocations", unit: "allocs/message", aim: "0"},
		{bench: batch64 + "ttl", metric: each, name: "queue machine, batches of 64 with TTL, allocations", unit: "allocs/message", aim: "0"},
		{bench: "FanOut", metric: each, name: "queue machine, 200 consumers, allocations", unit: "allocs/message", aim: "0"},
		{bench: "Reject", metric: each, name: "queue machine, returned and dead-lettered, allocations", unit: "allocs/message", aim: "0"},
		{bench: "ReadyState/plain", metric: "bytes/ready", name: "queue machine, state of a ready message", unit: "B/message", limit: readyLimit},
		{bench: "ReadyState/ttl", metric: "bytes/ready", name: "queue machine, state of a ready message with TTL", unit: "B/message", limit: readyLimit},
		{bench: "Expire", metric: "ns/message", name: "queue machine, expiry in mixed order", unit: "ns/message", aim: lower},
		{bench: "Decode", metric: "ns/op", name: "queue machine, decode a command of 64", unit: "ns/message", aim: lower},
		{bench: "Decode", metric: "bytes/message", name: "queue machine, size of a command of 64", unit: "B/message", aim: lower},
		{bench: "Snapshot/write", metric: "ns/message", name: "queue machine, write a snapshot", unit: "ns/message", aim: lower},
		{bench: "Snapshot/write", metric: "bytes/message", name: "queue machine, size of a snapshot", unit: "B/message", aim: lower},
		{bench: "Snapshot/restore", metric: "ns/message", name: "queue machine, restore a snapshot", unit: "ns/message", aim: lower},
	}
	return s
}

// groupSuite is a Raft group of three members in one process. Its log is in memory, or in bolt as
// the catalog's is.
func groupSuite() suite {
	s := suite{pkg: "./raftfsm", pattern: "^BenchmarkGroup$", benchTime: "1s"}
	for _, load := range []struct{ bench, name string }{
		{"messages=64/window=64", "64 × 100 B, 64 in flight"},
		{"messages=1/window=1024", "1 × 100 B, 1024 in flight"},
		{"messages=1/window=1", "1 × 100 B, alone"},
	} {
		for _, store := range []string{"memory", "bolt"} {
			for _, m := range []struct{ metric, name, unit, aim string }{
				{"messages/s", "messages", "messages/s", higher},
				{"entries/s", "entries", "entries/s", higher},
				{"p50-µs", "commit p50", "µs", lower},
				{"p99-µs", "commit p99", "µs", lower},
			} {
				f := figure{bench: "Group/" + store + "/" + load.bench, metric: m.metric, unit: m.unit, aim: m.aim}
				name := func(store string) string { return fmt.Sprintf("group, %s, %s, %s", store, load.name, m.name) }
				if f.name = name(store); store != "memory" {
					f.with = name("memory")
				}
				s.figures = append(s.figures, f)
			}
		}
	}
	return s
}

// logSuite is the node's shared log, compared with one bolt file for each group.
func logSuite() suite {
	s := suite{pkg: "./wal", pattern: "^BenchmarkAppend$/^groups=(1|100)$", benchTime: "1x"}
	for _, groups := range []int{1, 100} {
		for _, batch := range []int{1, 64} {
			for _, m := range []struct{ metric, name, unit, aim string }{
				{"msg/s", "messages", "messages/s", higher},
				{"p50-µs", "append p50", "µs", lower},
				{"p99-µs", "append p99", "µs", lower},
				{"allocs/entry", "allocations", "allocs/entry", lower},
			} {
				for _, store := range []string{"bolt", "sync", "async"} {
					f := figure{
						bench: fmt.Sprintf("Append/groups=%d/batch=%d", groups, batch), metric: store + "-" + m.metric,
						unit: m.unit, aim: m.aim,
					}
					name := func(store string) string {
						return fmt.Sprintf("log, %s, %d groups, batches of %d, %s", store, groups, batch, m.name)
					}
					if f.name = name(store); store != "bolt" {
						f.with = name("bolt")
					}
					s.figures = append(s.figures, f)
				}
			}
		}
	}
	return s
}

// rows makes the suite's rows; a benchmark or metric that is absent is an error.
func (s suite) rows(r results) ([]Row, error) {
	out := make([]Row, 0, len(s.figures))
	var errs []error
	for _, f := range s.figures {
		v, ok := r[f.bench][f.metric]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: Benchmark%s reports no %s: the figure %q needs it", s.pkg, f.bench, f.metric, f.name))
			continue
		}
		if f.scale != 0 {
			v *= f.scale
		}
		row := Row{Name: f.name, Value: v, Unit: f.unit, ComparedWith: f.with, Aim: f.aim}
		if f.limit != 0 {
			ratio := v / f.limit
			row.Ratio, row.Aim, row.ComparedWith = &ratio, "at most "+strconv.FormatFloat(f.limit, 'g', -1, 64), "the aim"
		}
		out = append(out, row)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, compare(out)
}

// Bounds of one package's benchmarks.
const (
	suiteTimeout = 2 * time.Minute
	stopTimeout  = 10 * time.Second // after an interrupt
	shownBytes   = 4096             // of the output of failed benchmarks
)

// run runs the package's benchmarks in the module at dir.
func (s suite) run(ctx context.Context, dir string) ([]Row, error) {
	processors := runtime.GOMAXPROCS(0)
	args := []string{
		"test", "-run", "^$", "-bench", s.pattern, "-benchmem", "-benchtime", s.benchTime, "-count", "1",
		"-cpu", strconv.Itoa(processors), "-timeout", suiteTimeout.String(), s.pkg,
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test then ends its child too
	cmd.WaitDelay = stopTimeout
	if err := cmd.Run(); err != nil {
		text := out.Bytes()
		err = errors.Join(err, context.Cause(ctx))
		return nil, fmt.Errorf("go test -bench of %s in %s: %w\n%s", s.pkg, dir, err, text[max(0, len(text)-shownBytes):])
	}
	r, err := parse(&out, processors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.pkg, err)
	}
	return s.rows(r)
}
