package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/peers"
)

// What the guard runs. Its figures are costs of a message, which other work on the machine changes little; the least of
// several rounds counts, since other work only adds.
const (
	guardRounds = 2
	guardTime   = 1500 * time.Millisecond // of each workload
	guardFile   = "guard.json"            // in the directory of results
	guardBytes  = 4 << 30                 // room that the servers' data needs in memory
)

// guardWorkloads are the cells that the guard looks at, over both protocols.
func guardWorkloads() []peers.Workload {
	return []peers.Workload{
		{Size: 12, Queues: 1, Window: 1},
		{Size: 12, Queues: 1, Window: 1000},
		{Size: 1024, Queues: 1, Window: 1000},
		{Size: 16 << 10, Queues: 1, Window: 100},
		{Size: 1024, Queues: 100, Window: 100},
	}
}

// guardFigure is a cost that the guard compares. It may be at most so many times what the table has; 0: it is shown, and
// judged by people, because other work on the machine changes it.
type guardFigure struct {
	name, unit string
	atMost     float64
	of         func(f peers.Figures, work time.Duration) float64 // work is the time of knownWork
}

// guardFigures are the costs, with the room that their spread from run to run asks for.
func guardFigures() []guardFigure {
	return []guardFigure{
		{"allocations", "allocs/message", 1.3, func(f peers.Figures, _ time.Duration) float64 { return f.Allocations }},
		{"allocated", "B/message", 1.3, func(f peers.Figures, _ time.Duration) float64 { return f.Bytes }},
		{"reads and writes", "calls/message", 1.4, func(f peers.Figures, _ time.Duration) float64 { return f.Calls }},
		{"hand-overs", "switches/message", 0, func(f peers.Figures, _ time.Duration) float64 { return f.Waits }},
		{"processor time", "known works/million", 0, func(f peers.Figures, work time.Duration) float64 { return f.CPU / work.Seconds() }},
	}
}

// knownWork is the processor time of a fixed piece of work, the least of some tries. Processor times divided by it can be
// compared between machines of one kind.
func knownWork() time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	block := make([]byte, 1<<20)
	const tries, blocks = 5, 16
	var least time.Duration
	for try := range tries {
		begin := threadTime()
		h := fnv.New64a()
		for range blocks {
			_, _ = h.Write(block) // a hash never fails
		}
		if took := threadTime() - begin; try == 0 || took < least {
			least = took
		}
	}
	return least
}

// threadTime is the processor time that the calling thread has used.
func threadTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_THREAD, &u) // Linux has it since 2.6.26
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// guardParts are what the guard measures: what a message costs, and what nodes have in memory.
func guardParts() []part {
	return []part{
		{name: "cost", run: costRows},
		{name: "memory", run: restRows},
	}
}

// guardRows measures some parts. The rows have the same order at every call.
func guardRows(ctx context.Context, o options, chosen []part) (rows []Row, err error) {
	for _, p := range chosen {
		more, err := p.run(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", p.name, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// costRows are what a message costs.
func costRows(ctx context.Context, o options) ([]Row, error) {
	var rows []Row
	for range guardRounds {
		report, err := peers.Run(ctx, peers.Config{
			Binary: o.binary, Only: "native,quorate", Exactly: guardWorkloads(), Dir: o.memoryOrDisk(),
			Time: guardTime, Log: os.Stderr, Stuck: o.results,
		})
		if err != nil {
			return nil, err
		}
		work := knownWork()
		round := make([]Row, 0, len(rows))
		for _, f := range report.Figures {
			for _, g := range guardFigures() {
				round = append(round, Row{Name: fmt.Sprintf("%s, %s, %s", f.System, f.Workload, g.name), Value: g.of(f, work), Unit: g.unit})
			}
		}
		rows = leastOf(rows, round)
	}
	return rows, nil
}

// memoryOrDisk is where the servers' data goes: in memory, where there is enough, so that no disk decides how many
// messages a sync takes along.
func (o options) memoryOrDisk() string {
	var disk syscall.Statfs_t
	if isDirectory(o.memory) && syscall.Statfs(o.memory, &disk) == nil && int64(disk.Bavail)*disk.Bsize >= guardBytes {
		return o.memory
	}
	return ""
}

// leastOf keeps the smaller value of each row.
func leastOf(a, b []Row) []Row {
	for i := range a {
		b[i].Value = min(a[i].Value, b[i].Value)
	}
	return b
}

// runGuard measures what only names, and compares with the table or, with -write, writes it.
func runGuard(ctx context.Context, o options, only string) error {
	chosen, err := chooseNamed(guardParts(), only, part.named)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took more than -limit=%s", o.limit))
	defer cancel()
	rows, err := guardRows(ctx, o, chosen)
	if err != nil {
		return err
	}
	whole := len(chosen) == len(guardParts())
	if o.write && whole {
		return errors.Join(printTable(os.Stdout, rows), write(o.results, "guard", rows))
	}
	table, err := readGuard(o.results)
	if err != nil {
		return err
	}
	if o.write {
		return errors.Join(printTable(os.Stdout, rows), write(o.results, "guard", withRows(table, rows)))
	}
	err = guard(rows, table, whole)
	return errors.Join(printTable(os.Stdout, rows), err)
}

// readGuard reads the committed table.
func readGuard(results string) (table []Row, err error) {
	text, err := os.ReadFile(filepath.Join(results, guardFile))
	if err != nil {
		return nil, fmt.Errorf("%w: -guard -write makes it", err)
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("%s: %w", guardFile, err)
	}
	return table, nil
}

// withRows returns the table with other values of the rows that were measured, and with those that it did not have.
func withRows(table, rows []Row) []Row {
	table = slices.Clone(table)
	for _, r := range rows {
		i := slices.IndexFunc(table, func(was Row) bool { return was.Name == r.Name })
		if i < 0 {
			table = append(table, r)
			continue
		}
		table[i] = r
	}
	return table
}

// guard sets the ratio of each row to the table's, and returns what costs more than it may. A row that only one of both
// has is an error too, unless not the whole table was measured.
func guard(rows, table []Row, whole bool) error {
	was := map[string]float64{}
	for _, r := range table {
		was[r.Name] = r.Value
	}
	most := map[string]float64{ownUnit: ownAtMost, filesUnit: filesAtMost, waitingUnit: waitingAtMost}
	for _, f := range guardFigures() {
		most[f.unit] = f.atMost
	}
	var errs []error
	for i, r := range rows {
		value, there := was[r.Name]
		delete(was, r.Name)
		if !there || value <= 0 {
			errs = append(errs, fmt.Errorf("%s: the table has no value of %q: make it anew with -write", guardFile, r.Name))
			continue
		}
		ratio := r.Value / value
		rows[i].Ratio, rows[i].ComparedWith, rows[i].Aim = &ratio, guardFile, lower
		if most[r.Unit] == 0 {
			continue
		}
		rows[i].Aim = fmt.Sprintf("at most %g ×", most[r.Unit])
		if ratio > most[r.Unit] {
			errs = append(errs, fmt.Errorf("%s: %s %s, %.2f × the %s of the table, more than %g ×", r.Name, short(r.Value), r.Unit, ratio, short(value), most[r.Unit]))
		}
	}
	if !whole {
		clear(was)
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		errs = append(errs, fmt.Errorf("%s: %q was not measured: make the table anew with -write", guardFile, name))
	}
	return errors.Join(errs...)
}
