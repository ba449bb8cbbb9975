// Command chaos runs workloads on nodes while a seeded schedule of faults hits them, and
// judges what the clients saw. It exits with 0 if the history is valid, 1 if it is not, 2 if too little was seen to tell,
// and 3 if the run itself failed.
//
//	chaos -seed 1 -duration 60s
//	chaos -check history.jsonl
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/run"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/netns"
	"github.com/quorate/quorate/chaos/workload"
)

// Exit codes.
const (
	exitValid = iota
	exitInvalid
	exitUnknown
	exitFailed
)

func main() { os.Exit(command()) }

// options are the flags.
type options struct {
	run               run.Config
	binary, other     string
	dir, target       string
	nodes             int
	check             string
	faults, workloads string
}

// command makes a history, or reads the one of -check, and judges it. The exit code is the verdict; a
// history that was recorded before an error is judged all the same, since a violation in it
// outweighs the error.
func command() int {
	var o options
	flag.Uint64Var(&o.run.Seed, "seed", 1, "seed of the schedule of faults")
	flag.DurationVar(&o.run.Length, "duration", time.Minute, "how long to publish")
	flag.IntVar(&o.run.Rate, "rate", 500, "messages per second of each workload")
	flag.StringVar(&o.binary, "binary", "bin/quorate", "the program of nodes")
	flag.StringVar(&o.other, "other", "", "the program of another build, for the fault build; empty: there is none")
	flag.StringVar(&o.target, "target", processes, "how nodes are run: "+processes+" of this machine on loopback, or "+namespaces+", each with a network and a disk of its own, on Linux as root")
	flag.IntVar(&o.nodes, "nodes", 3, "number of nodes, such as 3 or 5")
	flag.StringVar(&o.dir, "dir", "", "directory for the nodes and the history; empty: a new one")
	flag.StringVar(&o.faults, "faults", "", "names of faults, with commas between; empty: all that can be put in; list: print them")
	flag.StringVar(&o.workloads, "workloads", "", "names of workloads, with commas between; empty: all; list: print them")
	flag.StringVar(&o.check, "check", "", "judge this history instead of making one")
	version := flag.Bool("version", false, "print version, commit and Go version")
	flag.Parse()
	if *version {
		fmt.Println(quorate.About("chaos"))
		return exitValid
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.faults == "list" || o.workloads == "list" {
		return list(ctx, o)
	}
	if o.target == namespaces && o.check == "" && !netns.Inside() {
		return again(ctx)
	}
	events, err := read(o.check)
	if o.check == "" {
		events, err = record(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		if len(events) == 0 {
			return exitFailed
		}
	}
	report := check.Check(events)
	fmt.Println(report.String())
	switch {
	case report.Verdict == check.Invalid:
		return exitInvalid
	case err != nil:
		return exitFailed
	case report.Verdict == check.Undecidable:
		return exitUnknown
	default:
		return exitValid
	}
}

// read returns a history that was recorded; nothing for the empty name.
func read(name string) ([]history.Event, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	events, err := history.Read(f)
	return events, errors.Join(err, f.Close())
}

// record runs the cluster and returns the history, which it also writes to a file.
func record(ctx context.Context, o options) (events []history.Event, err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "quorate-chaos-"); err != nil {
			return nil, err
		}
	}
	fmt.Printf("seed %d, %v of publishing, nodes in %s\n", o.run.Seed, o.run.Length, o.dir)
	begin := time.Now()
	o.run.Log = func(format string, args ...any) {
		fmt.Printf("%6.1fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	c, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, c.Close(closing))
	}()
	o.run.Cluster = c.Cluster
	if err := choose(&o); err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.start(starting); err != nil {
		return nil, err
	}
	events, err = run.Run(ctx, o.run)
	name := filepath.Join(o.dir, "history.jsonl")
	f, errFile := os.Create(name)
	if errFile != nil {
		return events, errors.Join(err, errFile)
	}
	err = errors.Join(err, history.Write(f, events), f.Close())
	fmt.Println("history:", name)
	return events, err
}

// choose finds the faults and workloads that are named, and makes the schedule.
func choose(o *options) error {
	for _, k := range workload.Kinds() {
		if named(o.workloads, k.Name) {
			o.run.Workloads = append(o.run.Workloads, k)
		}
	}
	if len(o.run.Workloads) == 0 {
		return fmt.Errorf("there is no workload %q: -workloads list prints them", o.workloads)
	}
	kinds, err := faults(o.faults, o.run.Cluster)
	o.run.Faults, o.run.Steps = kinds, fault.Schedule(kinds, o.run.Seed, o.run.Length)
	return err
}

// faults returns the kinds that are named, or all that the cluster's driver can put in.
func faults(names string, c target.Cluster) ([]fault.Kind, error) {
	var out []fault.Kind
	for _, k := range fault.Kinds() {
		if !named(names, k.Name) {
			continue
		}
		if err := k.Needs(c); err == nil {
			out = append(out, k)
		} else if names != "" {
			return nil, fmt.Errorf("fault %s: %w", k.Name, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no fault %q: -faults list prints them", names)
	}
	return out, nil
}

// named reports whether a name is in the list; the empty list has all.
func named(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}
