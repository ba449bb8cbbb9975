// Package command is `quoratectl chaos`: it opens a cluster, lets workloads and faults loose on it
// and judges what the clients saw.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/run"
	"github.com/quorate/quorate/chaos/target/netns"
)

// Exit codes of a Failure; 4 is what quoratectl has for a cluster that cannot be reached.
const (
	ExitInvalid = 1 // the history breaks a guarantee
	ExitUsage   = 2 // the options are wrong
	ExitFailed  = 3 // the run itself failed, for example a node did not start
	ExitUnknown = 5 // too little was seen to judge, or a fault that had to bite did not
)

// Failure is the end of a command that is not a valid history. Err is nil if all was printed already.
type Failure struct {
	Code int
	Err  error
}

// Error implements error.
func (f *Failure) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("chaos: exit code %d", f.Code)
	}
	return f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Options are what the command line says. Zero values are the defaults.
type Options struct {
	Target    string        // see Targets; "": processes, or that of Replay
	Faults    []string      // names; empty: all that the cluster can have
	Workloads []string      // names; empty: all
	Length    time.Duration // of publishing; 0: 60 s
	Seed      uint64
	Rate      int    // messages per second of each workload; 0: what each kind says
	Nodes     int    // of clusters that are made; 0: 3
	Binary    string // the program of nodes of clusters that are made; "": found beside this one or on PATH
	Other     string // another build of it; "": none
	Out       string // directory for what the run leaves; "": a new one
	Replay    string // directory of a recorded run whose seed, schedule and workloads are taken
	// MaxPause is the factor by which clients may pause longer than check.PauseLimits, which are for
	// a quiet machine; 0: check.BusyFactor, negative: pauses are not judged.
	MaxPause float64
	// Stop ends the publishing when the history so far breaks a guarantee.
	Stop bool
	// Each puts every kind in once, one after another, and ends the run then.
	Each bool
	// Strict makes a kind of fault that never bit a failure, and a workload that lacked what it needs.
	Strict bool
	// Soak runs seed after seed until ctx ends, and keeps what failing runs left.
	Soak     bool
	Existing Existing // of targets that are already there
	// Args are the arguments of this program, which some targets run once more.
	Args []string
	// Output is where the run's progress is printed.
	Output io.Writer

	watch *watch // the run puts no faults in; nil: it does
}

// Run makes a history and judges it. The error is a *Failure.
func Run(ctx context.Context, o Options) error {
	p, err := o.plan()
	if err != nil {
		return &Failure{ExitUsage, err}
	}
	if p.Target == namespaces && !netns.Inside() {
		return again(ctx, o.Args)
	}
	if !o.Soak {
		return o.once(ctx, p)
	}
	for ctx.Err() == nil {
		err := o.once(ctx, p)
		if failure := (*Failure)(nil); errors.As(err, &failure) && failure.Code == ExitFailed && ctx.Err() == nil {
			return err // the next one would fail as well
		}
		p.Seed++
		p.Steps = nil
	}
	return nil
}

// once makes and judges one history. A soak keeps it only if it is not valid.
func (o *Options) once(ctx context.Context, p plan) error {
	dir, err := o.directory(p.Seed)
	if err != nil {
		return &Failure{ExitUsage, err}
	}
	err = o.judged(ctx, p, dir)
	interrupted := ctx.Err() != nil
	if o.Soak && (err == nil || interrupted) {
		return errors.Join(err, os.RemoveAll(dir))
	}
	o.print("what the run left: %s\n", dir)
	return err
}

// judged makes one history in the directory. A history that was recorded before an error is judged nevertheless: a
// violation in it outweighs the error.
func (o *Options) judged(ctx context.Context, p plan, dir string) error {
	events, report, err := o.record(ctx, p, dir)
	if err != nil && len(events) == 0 {
		return &Failure{ExitFailed, err}
	}
	o.print("%s\nreport: %s\n", report.String(), filepath.Join(dir, run.HTMLFile))
	failure := verdict(report)
	switch {
	case failure != nil && failure.Code == ExitInvalid:
		failure.Err = err
		return failure
	case err != nil:
		return &Failure{ExitFailed, err}
	case failure != nil:
		return failure
	case o.Strict:
		kept, err := (&Options{Replay: dir}).plan()
		if err != nil {
			return &Failure{ExitFailed, err}
		}
		return unfelt(kept.Steps, events)
	default:
		return nil
	}
}

// Check judges the history in a file, or in a directory that a run left.
func Check(name string, output io.Writer) error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, run.HistoryFile)
	}
	events, err := history.ReadFile(name)
	if err != nil {
		return &Failure{ExitFailed, err}
	}
	report := check.Check(events)
	if _, err := fmt.Fprintln(output, report.String()); err != nil {
		return err
	}
	if failure := verdict(report); failure != nil {
		return failure
	}
	return nil
}

// verdict returns nil for a valid history.
func verdict(r check.Report) *Failure {
	switch r.Verdict {
	case check.Invalid:
		return &Failure{Code: ExitInvalid}
	case check.Undecidable:
		return &Failure{Code: ExitUnknown}
	default:
		return nil
	}
}

// planFile is what a run leaves in its directory besides the nodes' files and those of run.Leave.
const planFile = "run.json"

// directory makes the place for what a run leaves; those of a soak have their seed in the name.
func (o *Options) directory(seed uint64) (string, error) {
	dir := o.Out
	if dir == "" {
		return os.MkdirTemp("", "quorate-chaos-")
	}
	if o.Soak {
		dir = filepath.Join(dir, fmt.Sprintf("seed-%d", seed))
	}
	if _, err := os.Stat(filepath.Join(dir, run.HistoryFile)); err == nil {
		return "", fmt.Errorf("%s has the history of another run: name a directory without one", dir)
	}
	return dir, os.MkdirAll(dir, 0o750)
}

// gcPercent is lower than Go's, because the history only grows: an hour of it is some gigabytes, and the
// nodes of the run may share this machine's memory.
const gcPercent = 25

// ballastBytes count as live for the collector, and are never used, so they take no memory. While the history is small, a
// quarter of it is filled within a moment: collecting took a third of this process's time, which the nodes need.
const ballastBytes = 1 << 30

// spareProcessors are processors of the Go runtime beyond the machine's: a collection or a large copy may hold one for a
// while, and those who answer calls of nodes (local's tampering) and note times must not wait for it.
const spareProcessors = 2

// record runs the cluster and returns the history with what was found in it; both are left in the
// directory.
func (o *Options) record(ctx context.Context, p plan, dir string) (events []history.Event, found check.Report, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	defer runtime.KeepAlive(make([]byte, ballastBytes))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + spareProcessors))
	begin := time.Now()
	log := func(format string, args ...any) {
		o.print("%6.1fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	c, err := o.open(ctx, p, dir)
	if err != nil {
		return nil, found, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, c.Close(closing))
	}()
	cfg, err := p.config(c.Cluster)
	if err != nil {
		return nil, found, err
	}
	cfg.Log, cfg.Progress, cfg.Dir = log, o.progress, dir
	cfg.Settings = history.Settings{Target: p.Target, Command: p.command(), Machine: machine()}
	if o.watch != nil {
		cfg.Settings.Command = "quoratectl chaos watch --target " + p.Target
		cfg.Progress, cfg.Meanwhile = o.watch.progress, func(ctx context.Context) error {
			o.watch.stopped(ctx, dir)
			return nil
		}
	}
	if o.Stop {
		cfg.Enough = broken
	}
	p.Steps = cfg.Steps
	if err := p.write(filepath.Join(dir, planFile)); err != nil {
		return nil, found, err
	}
	o.print("target %s, seed %d, %v of publishing, %d faults of %d kinds\n", p.Target, p.Seed, p.Length, len(cfg.Steps), len(cfg.Faults))
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.start(starting); err != nil {
		return nil, found, err
	}
	vhost, release, err := o.guard(ctx, p, c.Cluster)
	if err != nil {
		return nil, found, err
	}
	cfg.VHost = vhost
	events, err = run.Run(ctx, cfg)
	found, left := run.Leave(context.WithoutCancel(ctx), cfg, events, err)
	releasing, cancelRelease := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancelRelease()
	return events, found, errors.Join(err, left, release(releasing))
}

// progressEvery is how often a line reports the progress of the run.
const progressEvery = 10 * time.Second

// progress prints the progress of the run.
func (o *Options) progress(p run.Progress) {
	if p.At.Truncate(time.Second)%progressEvery != 0 {
		return
	}
	now := "no fault"
	if len(p.Current) > 0 {
		now = strings.Join(p.Current, ", ")
	}
	o.print("%6.1fs  %.0f confirms/s, %d confirmed, %d faults so far, now %s, %v left\n",
		p.At.Seconds(), p.Rate, p.Confirmed, p.Faults, now, p.Left.Round(time.Second))
}

// machine describes this machine in a few words.
func machine() string {
	return fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}

// broken reports whether the events so far break a guarantee.
func broken(events []history.Event) bool { return check.Check(events).Verdict == check.Invalid }

// print prints for who watches the run; a terminal that is gone does not end it.
func (o *Options) print(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Output, format, args...)
}
