// Command chaos runs three nodes under a seeded schedule of faults and judges what
// clients saw. It exits with 0 if the history is valid, 1 if it is not, 2 if too little
// was seen to tell, and 3 if the run itself failed.
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
	"syscall"
	"time"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/chaos"
)

// Exit codes.
const (
	exitValid = iota
	exitInvalid
	exitUnknown
	exitFailed
)

func main() { os.Exit(run()) }

// run makes a history, or reads the one of -check, and judges it. The exit code is the verdict; a
// history that was recorded before an error is judged all the same, since a violation in it
// outweighs the error.
func run() int {
	var cfg chaos.RunConfig
	var binary, dir, check string
	flag.Uint64Var(&cfg.Seed, "seed", 1, "seed of the schedule of faults")
	flag.DurationVar(&cfg.Length, "duration", time.Minute, "how long to publish")
	flag.IntVar(&cfg.Rate, "rate", 500, "messages per second of each of three publishers")
	flag.StringVar(&binary, "binary", "bin/quorate", "the program of nodes")
	flag.StringVar(&dir, "dir", "", "directory for the nodes and the history; empty: a new one")
	flag.StringVar(&check, "check", "", "judge this history instead of making one")
	version := flag.Bool("version", false, "print version, commit and Go version")
	flag.Parse()
	if *version {
		fmt.Println(quorate.About("chaos"))
		return exitValid
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	events, err := read(check)
	if check == "" {
		events, err = record(ctx, cfg, binary, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		if len(events) == 0 {
			return exitFailed
		}
	}
	report := chaos.Check(events)
	fmt.Println(report.String())
	switch {
	case report.Verdict == chaos.Invalid:
		return exitInvalid
	case err != nil:
		return exitFailed
	case report.Verdict == chaos.Undecidable:
		return exitUnknown
	default:
		return exitValid
	}
}

// read returns the events of a history, none for an empty name.
func read(name string) ([]chaos.Event, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	events, err := chaos.ReadHistory(f)
	return events, errors.Join(err, f.Close())
}

// record runs the cluster and returns the history, which it also writes to a file.
func record(ctx context.Context, cfg chaos.RunConfig, binary, dir string) (events []chaos.Event, err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "quorate-chaos-"); err != nil {
			return nil, err
		}
	}
	fmt.Printf("seed %d, %v of publishing, nodes in %s\n", cfg.Seed, cfg.Length, dir)
	begin := time.Now()
	cfg.Log = func(format string, args ...any) {
		fmt.Printf("%6.1fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	if cfg.Cluster, err = chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: dir}); err != nil {
		return nil, err
	}
	defer cfg.Cluster.Kill()
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := cfg.Cluster.Start(starting); err != nil {
		return nil, err
	}
	events, err = chaos.Run(ctx, cfg)
	name := filepath.Join(dir, "history.jsonl")
	f, errFile := os.Create(name)
	if errFile != nil {
		return events, errors.Join(err, errFile)
	}
	err = errors.Join(err, chaos.WriteHistory(f, events), f.Close())
	fmt.Println("history:", name)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return events, errors.Join(err, cfg.Cluster.Stop(stopping))
}
