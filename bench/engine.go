package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// engineRow is one figure of the replication engine. Value is null, and Met has the reason, if
// nothing was measured.
type engineRow struct {
	Name         string   `json:"name"`
	Value        *float64 `json:"value"`
	Unit         string   `json:"unit"`
	ComparedWith string   `json:"compared_with"` // "the aim", or empty
	Ratio        *float64 `json:"ratio"`         // Value divided by the aim
	Aim          string   `json:"aim"`
	Met          string   `json:"met"`
	Load         float64  `json:"load"` // the machine's load average when the row's benchmark began
}

// Values of Met.
const (
	met         = "met"
	notMet      = "not met"
	reported    = "reported" // there is no aim
	notThereYet = "not there yet"
	failed      = "failed"
)

// goal is a figure's aim: a limit to stay at or below, or at or above; the zero value is no aim.
type goal struct {
	limit   float64
	atLeast bool
}

func atMost(v float64) goal  { return goal{limit: v} }
func atLeast(v float64) goal { return goal{limit: v, atLeast: true} }

func (g goal) String() string {
	number := strconv.FormatFloat(g.limit, 'f', -1, 64)
	switch {
	case g == goal{}:
		return reported
	case g.atLeast:
		return "at least " + number
	default:
		return "at most " + number
	}
}

// row makes a row from a measured value.
func (g goal) row(name, unit string, value float64) engineRow {
	r := engineRow{Name: name, Value: &value, Unit: unit, Aim: g.String(), Met: reported}
	if g == (goal{}) {
		return r
	}
	ratio := value / g.limit
	r.ComparedWith, r.Ratio, r.Met = "the aim", &ratio, met
	if value > g.limit && !g.atLeast || value < g.limit && g.atLeast {
		r.Met = notMet
	}
	return r
}

// absent makes a row without a value.
func (g goal) absent(name, unit, why string) engineRow {
	return engineRow{Name: name, Unit: unit, Aim: g.String(), Met: why}
}

// engineFigure makes a row from one metric of one benchmark.
type engineFigure struct {
	bench, metric, name, unit string
	goal                      goal
}

// engineSuite is a benchmark of a package and the rows that come from it. Without pkg it is
// failover, which starts processes.
type engineSuite struct {
	name, pkg, pattern string
	in                 string // directory of the module with the package; "": the main module
	benchTime          string
	env                []string // besides that of this process
	quickEnv           []string // with -quick
	args               []string // of the test binary with -quick
	figures            []engineFigure
}

func (s engineSuite) named() string { return s.name }

const idleGroups, manyGroups = 1000, 10_000

// engineSuites lists the rows of the engine with their aims. Each suite is a process of its own, so
// that no suite disturbs the next.
func engineSuites() []engineSuite {
	const engine, here, groupsEnv = "./enginebench", "bench", "QUORATE_SCALE_GROUPS="
	quick := []string{"-quick"}
	few := []string{groupsEnv + "20"}
	many := fmt.Sprintf("%d groups of 3", manyGroups)
	return []engineSuite{
		{name: "ratio", pkg: engine, in: here, pattern: "^BenchmarkStores$", args: quick, figures: []engineFigure{
			{"Stores/groups=1/batch=64", "shared/bolt", "1 group, 64 × 100 B: shared log ÷ bolt", "×", atLeast(2.5)},
			{"Stores/groups=100/batch=1", "shared/bolt", "100 groups, 1 × 100 B: shared log ÷ bolt", "×", atLeast(6)},
			{"Stores/groups=1000/batch=1", "shared/bolt", "1,000 groups, 1 × 100 B: shared log ÷ bolt", "×", atLeast(6)},
			{"Stores/groups=1/batch=64", "shared-msg/s", "1 group, 64 × 100 B: shared log", "messages/s", goal{}},
			{"Stores/groups=100/batch=1", "shared-msg/s", "100 groups, 1 × 100 B: shared log", "messages/s", goal{}},
			{"Stores/groups=1000/batch=1", "shared-msg/s", "1,000 groups, 1 × 100 B: shared log", "messages/s", goal{}},
		}},
		{name: "cpu", pkg: engine, in: here, pattern: "^BenchmarkProcessor$", args: quick, figures: []engineFigure{
			{"Processor", "shared/memory", "CPU per entry of 64 × 100 B: shared log ÷ log in memory", "×", atMost(2.5)},
			{"Processor", "ram-disk/memory", "CPU per entry of 64 × 100 B: shared log on a disk in memory ÷ log in memory", "×", goal{}},
			{"Processor", "shared-µs/entry", "CPU per entry of 64 × 100 B, all members", "µs", goal{}},
		}},
		{name: "held", pkg: engine, in: here, pattern: "^BenchmarkHeld$", args: quick, figures: []engineFigure{
			{"Held", "msg/s", "300,000 messages/s offered to one queue: held", "messages/s", atLeast(297_000)},
			{"Held", "cores", "300,000 messages/s offered to one queue: CPU of all members and the load", "cores", atMost(0.6)},
			{"Held", "load-cores", "300,000 messages/s offered to nobody: CPU of the load", "cores", goal{}},
			{"Held", "entries/s", "300,000 messages/s offered to one queue: entries", "entries/s", goal{}},
			{"Held", "syncs/s", "300,000 messages/s offered to one queue: syncs of a node", "syncs/s", goal{}},
			{"Held", "ms-p50", "300,000 messages/s offered to one queue: commit p50", "ms", atMost(3)},
			{"Held", "ms-p99", "300,000 messages/s offered to one queue: commit p99", "ms", atMost(15)},
		}},
		{name: "snapshot", pkg: "./quorumq", pattern: "^BenchmarkDeepSnapshot$/^batch256$", benchTime: "5x", figures: []engineFigure{
			{"DeepSnapshot/batch256", "whole_ms", "snapshot of 10 million messages: whole", "ms", atMost(20)},
			{"DeepSnapshot/batch256", "blocked_ms", "snapshot of 10 million messages: machine blocked", "ms", atMost(1)},
			{"DeepSnapshot/batch256", "snapshot_mb", "snapshot of 10 million messages: size", "MB", goal{}},
		}},
		{name: "disk", pkg: "./wal", pattern: "^BenchmarkDiskUse$", figures: []engineFigure{
			{"DiskUse", beyondLive, "10 million published and acked, 1,000 stay: disk beyond 3 × live", "segments", atMost(2)},
			{"DiskUse", "segments-beyond-3×live-at-worst", "10 million published and acked, 1,000 stay: disk beyond 3 × live, worst on the way", "segments", goal{}},
			{"DiskUse", "disk-MB", "10 million published and acked, 1,000 stay: disk", "MB", goal{}},
			{"DiskUse", "live-MB", "10 million published and acked, 1,000 stay: live", "MB", goal{}},
		}},
		{name: "failover", figures: failoverFigures()},
		{name: "idle", pkg: "./cluster", pattern: "^BenchmarkGroups$", env: []string{groupsEnv + strconv.Itoa(idleGroups)}, quickEnv: few, figures: []engineFigure{
			{"Groups", "cpu_awake_%", fmt.Sprintf("%d idle groups of 3: CPU", idleGroups), "% of a core", atMost(0.2)},
		}},
		{name: "hibernated", pkg: "./cluster", pattern: "^BenchmarkHibernated$", env: []string{groupsEnv + strconv.Itoa(manyGroups)}, quickEnv: few, figures: []engineFigure{
			{"Hibernated", "cpu_hibernated_%", many + " hibernate: CPU", "% of a core", goal{}},
			{"Hibernated", "kb_hibernated", many + " hibernate: memory of a member", "KB", atMost(8)},
			{"Hibernated", "ready_s", many + " hibernate: restart until ready", "s", atMost(10)},
			{"Hibernated", "wake_ms", many + " hibernate: wake one", "ms", goal{}},
		}},
		{name: "scale", pkg: "./cluster", pattern: "^BenchmarkGroups$", env: []string{groupsEnv + strconv.Itoa(manyGroups)}, quickEnv: few, figures: []engineFigure{
			{"Groups", "cpu_awake_%", many + ": CPU at rest", "% of a core", atMost(1)},
			{"Groups", "kb_awake", many + ": memory of a member, awake", "KB", atMost(45)},
			{"Groups", "create_s", many + ": create", "s", goal{}},
			{"Groups", "restart_s", many + ": restart", "s", atMost(10)},
			{"Groups", "kill_s", many + ": a node killed, until all have a leader", "s", atMost(5)},
		}},
	}
}

// failoverFigures names quantiles as metrics.
func failoverFigures() []engineFigure {
	var out []engineFigure
	for _, f := range []struct {
		fault      string
		p50, worst float64
	}{
		{"killed", 0.15, 0.5},
		{"paused", 0.6, 1},
		{"cut off", 0.8, 1},
		{"cut off one way", 0.8, 1.5},
		{"flapping", 1, 2},
		{"disk frozen", 0.8, 1.2},
		{"disk full", 0.8, 1.5},
		{"disk failed", 0.15, 0.5},
		{"started after a power cut of all", 5, 5},
	} {
		what := "next confirm"
		if f.fault == flapping().name {
			what = "longest pause"
		}
		name := "leader's node " + f.fault + ": " + what + ", "
		out = append(out,
			engineFigure{f.fault, "p50", name + "p50", "s", atMost(f.p50)},
			engineFigure{f.fault, "worst", name + "worst", "s", atMost(f.worst)})
	}
	return out
}

// beyondLive is computed from the final report of BenchmarkDiskUse, in segments.
const (
	beyondLive = "segments-beyond-3×live"
	segmentMB  = 64 * 1.048576
)

// addBeyondLive adds how many segments the disk has beyond three times the live data.
func addBeyondLive(r results) {
	disk, ok1 := r["DiskUse"]["disk-MB"]
	live, ok2 := r["DiskUse"]["live-MB"]
	if ok1 && ok2 {
		r["DiskUse"][beyondLive] = max(0, disk-3*live) / segmentMB
	}
}

// rows makes the suite's rows. A row whose metric the benchmarks do not report counts as not
// measured yet.
func (s engineSuite) rows(r results) []engineRow {
	out := make([]engineRow, 0, len(s.figures))
	for _, f := range s.figures {
		v, ok := r[f.bench][f.metric]
		if !ok {
			out = append(out, f.goal.absent(f.name, f.unit, notThereYet))
			continue
		}
		out = append(out, f.goal.row(f.name, f.unit, v))
	}
	return out
}

// absent returns the rows of a suite that could not run, with the reason instead of values.
func (s engineSuite) absent(why string) []engineRow {
	out := make([]engineRow, 0, len(s.figures))
	for _, f := range s.figures {
		out = append(out, f.goal.absent(f.name, f.unit, why))
	}
	return out
}

// run measures the suite.
func (s engineSuite) run(ctx context.Context, o options) ([]engineRow, error) {
	if s.pkg == "" {
		times, err := failover(ctx, o)
		var cannot errCannot
		if errors.As(err, &cannot) {
			return s.absent("not measured: " + cannot.Error()), nil
		}
		if err != nil {
			return s.absent(failed), err
		}
		return s.rows(times.results()), nil
	}
	r, err := s.bench(ctx, o)
	if err != nil {
		return s.absent(failed), err
	}
	addBeyondLive(r)
	return s.rows(r), nil
}

// results converts each fault's times to the form of benchmark results.
func (t failoverTimes) results() results {
	out := results{}
	for fault, times := range t {
		if slices.Sort(times); len(times) > 0 {
			out[fault] = map[string]float64{"p50": times[len(times)/2], "worst": times[len(times)-1]}
		}
	}
	return out
}

const engineTimeout = 15 * time.Minute // of one package's benchmarks

// bench runs the suite's benchmark, which may not exist.
func (s engineSuite) bench(ctx context.Context, o options) (results, error) {
	processors := runtime.GOMAXPROCS(0)
	benchTime := s.benchTime
	if benchTime == "" || o.quick {
		benchTime = "1x"
	}
	args := []string{
		"test", "-run", "^$", "-bench", s.pattern, "-benchtime", benchTime, "-count", "1",
		"-cpu", strconv.Itoa(processors), "-timeout", engineTimeout.String(),
	}
	if o.profile != "" {
		dir, err := filepath.Abs(o.profile)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
		args = append(args, "-cpuprofile", filepath.Join(dir, s.name+".prof"), "-o", filepath.Join(dir, s.name+".test"))
	}
	args = append(args, s.pkg)
	env := s.env
	if o.quick {
		env = s.quickEnv
		if len(s.args) > 0 {
			args = append(append(args, "-args"), s.args...)
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = filepath.Join(o.module, s.in), &out, os.Stderr, append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Run(); err != nil {
		text := out.Bytes()
		err = errors.Join(err, context.Cause(ctx))
		return nil, fmt.Errorf("go test -bench of %s: %w\n%s", s.pkg, err, text[max(0, len(text)-shownBytes):])
	}
	return parse(&out, processors)
}

// loadAverage returns the machine's load average of the last minute; 0 if the system does not
// report it.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}

// busyAt is the load per processor from which the start of a run counts as busy.
const busyAt = 0.5

// runEngine measures the chosen suites one after another, prints the table and stores the rows.
func runEngine(ctx context.Context, o options, only string) error {
	suites, err := chooseNamed(engineSuites(), only, engineSuite.named)
	if err != nil {
		return err
	}
	m := measurement{
		title: "The replication engine, three members", file: "engine",
		whole: only == "" && !o.quick, // the file of a part would replace that of the whole
	}
	for _, s := range suites {
		m.parts = append(m.parts, measured{s.name, func(ctx context.Context) ([]engineRow, error) { return s.run(ctx, o) }})
	}
	return m.run(ctx, o)
}

// measurement is a table of rows with aims.
type measurement struct {
	title, file string
	whole       bool // the rows are stored
	parts       []measured
}

// measured is the source of some rows.
type measured struct {
	name string
	run  func(context.Context) ([]engineRow, error)
}

// run measures the parts one after another, prints the table and stores the rows.
func (m *measurement) run(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took more than -limit=%s", o.limit))
	defer cancel()
	before := loadAverage()
	var all []engineRow
	var errs []error
	for _, p := range m.parts {
		load, begin := loadAverage(), time.Now()
		rows, err := p.run(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
		for i := range rows {
			rows[i].Load = load
		}
		all = append(all, rows...)
		fmt.Fprintf(os.Stderr, "%s: %.0f s\n", p.name, time.Since(begin).Seconds())
	}
	fmt.Printf("\n%s on %d processors, fsync on every commit; load average %.2f before, %.2f after\n",
		m.title, runtime.NumCPU(), before, loadAverage())
	if before > busyAt*float64(runtime.NumCPU()) {
		fmt.Println("THE MACHINE WAS BUSY with other things: rates and times are worse than its own, ratios less so")
	}
	if o.quick {
		fmt.Println("QUICK: this shows that the rows are measured; the figures mean nothing")
	}
	fmt.Println()
	errs = append(errs, printEngine(os.Stdout, all))
	if m.whole {
		errs = append(errs, write(o.results, m.file, all))
	}
	return errors.Join(errs...)
}

// chooseNamed returns the parts that a list names, in their own order; all for an empty list.
func chooseNamed[T any](all []T, only string, name func(T) string) ([]T, error) {
	if only == "" {
		return all, nil
	}
	wanted := strings.Split(only, ",")
	var names []string
	var out []T
	for _, s := range all {
		names = append(names, name(s))
		if i := slices.Index(wanted, name(s)); i >= 0 {
			out, wanted = append(out, s), slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("nothing is named %q, or it comes twice: use some of %s", wanted, strings.Join(names, ","))
	}
	return out, nil
}

// printEngine prints the rows as a table; the last column is empty for rows without an aim.
func printEngine(to io.Writer, rows []engineRow) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	if _, err := fmt.Fprintln(w, "figure\tvalue\tunit\taim\t"); err != nil {
		return err
	}
	for _, r := range rows {
		value := "-"
		if r.Value != nil {
			value = short(*r.Value)
		}
		said := r.Met
		if said == reported {
			said = ""
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, value, r.Unit, r.Aim, said); err != nil {
			return err
		}
	}
	return w.Flush()
}
