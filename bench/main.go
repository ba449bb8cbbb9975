// Command bench measures the project: the benchmarks of packages through go test, and three node
// processes on this machine with real clients over gRPC. It prints tables and writes the rows as
// JSON, one file for each part, so that figures can be compared over time. Absolute figures are
// comparable only on the same machine; ratios within one run are more general.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/bench/peers"
)

// main exits with 1 on any error.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	var only string
	flag.StringVar(&only, "only", "", "parts to run, separated by commas; empty: "+names(parts(), part.named))
	flag.StringVar(&o.module, "module", "..", "directory of the main module")
	flag.StringVar(&o.binary, "binary", "../bin/quorate", "path of the node program")
	flag.StringVar(&o.results, "results", "results", "directory for the rows as JSON; empty: none")
	flag.StringVar(&o.memory, "memory", "/dev/shm", "directory in memory to compare the disk with; empty or absent: no comparison")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "time after which the whole run fails")
	flag.DurationVar(&o.time, "time", 4*time.Second, "length of each throughput run")
	flag.IntVar(&o.inFlight, "in-flight", 1024, "unconfirmed messages of each of three publishers")
	flag.IntVar(&o.rate, "rate", 2000, "messages per second of the latency runs")
	flag.DurationVar(&o.latencyTime, "latency-time", 3*time.Second, "length of each latency run")
	flag.BoolVar(&o.engine, "engine", false, "measure the replication engine against its aims instead; -only names its rows")
	flag.BoolVar(&o.deadLetters, "deadletter", false, "measure at-least-once dead-lettering against its aims instead; -only names its parts")
	flag.BoolVar(&o.backups, "backup", false, "measure backups beside publishers against their aims instead")
	flag.BoolVar(&o.restarts, "restart", false, "measure the memory of nodes at rest, and how long clients wait while nodes are restarted, against their aims instead")
	flag.StringVar(&o.ctl, "ctl", "../bin/quoratectl", "with -backup: path of quoratectl")
	flag.IntVar(&o.messages, "messages", 1_000_000, "with -backup: number of messages in the queue")
	flag.StringVar(&o.settings, "settings", "", "with -backup: more lines of each node's configuration")
	flag.IntVar(&o.waiting, "waiting", 1_000_000, "with -deadletter: number of messages that wait for a target")
	flag.BoolVar(&o.quick, "quick", false, "with -aims, -turns, -engine, -deadletter, -backup or -restart: a short trial that stores nothing; with -peers: a part of the workloads")
	flag.IntVar(&o.rounds, "rounds", failoverRounds, "with -engine: how often each fault hits a leader")
	flag.StringVar(&o.profile, "profile", "", "with -engine: directory for a CPU profile of each package's benchmarks")
	flag.BoolVar(&o.aims, "aims", false, "measure what a message costs over both protocols against its aims instead; with -rabbitmq or -nats these beside it")
	flag.IntVar(&o.turns, "turns", 0, "compare -binary with the build -against by so many turns of each, under the workloads of -aims, in place of other figures; -only names some of native,quorate, and -size, -queues and -window some of the workloads")
	flag.StringVar(&o.against, "against", "", "with -turns: path of the other build's node program")
	flag.BoolVar(&o.peers, "peers", false, "compare with RabbitMQ over AMQP and with NATS JetStream, where they are installed, and with gRPC; -only names some of quorate,native,rabbitmq,nats")
	flag.StringVar(&o.rabbitmq, "rabbitmq", "", "with -peers: directory of rabbitmq-server and rabbitmqctl; empty: the usual ones")
	flag.StringVar(&o.nats, "nats", "", "with -peers: path of nats-server; empty: search PATH")
	flag.DurationVar(&o.peersTime, "peers-time", 0, "with -peers, -aims or -turns: how long each workload publishes; 0: 2 s")
	flag.IntVar(&o.filter.Size, "size", 0, "with -peers or -turns: only bodies of this size in bytes; nothing is stored")
	flag.IntVar(&o.filter.Queues, "queues", 0, "with -peers or -turns: only workloads with this number of queues; nothing is stored")
	flag.IntVar(&o.filter.Window, "window", 0, "with -peers or -turns: only workloads with this window; nothing is stored")
	flag.BoolVar(&o.guard, "guard", false, "compare what a message costs, and what nodes have in memory, with the committed table, and fail where it is clearly more; -only names its parts: "+names(guardParts(), part.named))
	flag.BoolVar(&o.write, "write", false, "with -guard: write the table anew, or its rows that -only measures")
	flag.StringVar(&o.faults, "faults", "", "with -engine: faults of a leader's node, separated by commas; empty: "+names(faults(), fault.named))
	flag.StringVar(&o.world, "failover-world", "", "internal: -engine starts this in namespaces of its own; where the times go")
	version := flag.Bool("version", false, "print version, commit and Go version")
	flag.Parse()
	if *version {
		fmt.Println(quorate.About("bench"))
		return
	}
	if err := start(ctx, o, only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// start runs the command that the flags select.
func start(ctx context.Context, o options, only string) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.quick {
		o.rounds = 1
	}
	switch {
	case o.world != "":
		return runFailoverWorld(ctx, o)
	case o.deadLetters:
		return runDeadLetters(ctx, o, only)
	case o.backups:
		return runBackups(ctx, o)
	case o.restarts:
		return runRestarts(ctx, o)
	case o.engine:
		return runEngine(ctx, o, only)
	case o.guard:
		return runGuard(ctx, o, only)
	case o.aims:
		return runAims(ctx, o)
	case o.turns > 0:
		return runTurns(ctx, o, only)
	case o.peers:
		return runPeers(ctx, o, only)
	}
	chosen, err := chooseNamed(parts(), only, part.named)
	if err != nil {
		return err
	}
	return run(ctx, o, chosen)
}

// options are the flags.
type options struct {
	engine, deadLetters, peers      bool
	aims, guard, write              bool
	backups, quick, restarts        bool
	faults, world                   string
	rounds, waiting, messages       int
	turns                           int
	against                         string
	ctl, settings                   string
	rabbitmq, nats                  string
	peersTime                       time.Duration
	filter                          peers.Workload
	profile                         string
	module, binary, results, memory string
	inFlight, rate                  int
	limit, time, latencyTime        time.Duration
}

// validate returns all faults at once.
func (o options) validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"in-flight", int64(o.inFlight)},
		{"rounds", int64(o.rounds)},
		{"waiting", int64(o.waiting)},
		{"messages", int64(o.messages)},
		{"rate", int64(o.rate)},
		{"limit", int64(o.limit)},
		{"time", int64(o.time)},
		{"latency-time", int64(o.latencyTime)},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("-%s is not above 0", f.name))
		}
	}
	if o.turns < 0 || (o.turns > 0) != (o.against != "") {
		errs = append(errs, fmt.Errorf("-turns=%d -against=%q: set a number of turns above 0 and the path of the other build, or neither", o.turns, o.against))
	}
	return errors.Join(errs...)
}

// part is the content of one file of results.
type part struct {
	name, file, about string
	run               func(context.Context, options) ([]Row, error)
}

func (p part) named() string { return p.name }

// parts lists the parts that run without a flag, in this order.
func parts() []part {
	of := func(s suite) func(context.Context, options) ([]Row, error) {
		return func(ctx context.Context, o options) ([]Row, error) { return s.run(ctx, o.module) }
	}
	return []part{
		{"queue", "queue", "the queue machine alone", of(queueSuite())},
		{"group", "group", "a group of three members in one process", of(groupSuite())},
		{"log", "log", "the node's shared log beside bolt", of(logSuite())},
		{"end", "end_to_end", "three node processes and clients over gRPC", endToEnd},
	}
}

// names joins the names of parts for -only.
func names[T any](all []T, name func(T) string) string {
	out := make([]string, 0, len(all))
	for _, x := range all {
		out = append(out, name(x))
	}
	return strings.Join(out, ",")
}

// run runs parts one after another, so that no part takes processor time from another. It stores
// each part's rows when the part ends; a failed part does not stop the next one.
func run(ctx context.Context, o options, chosen []part) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took more than -limit=%s", o.limit))
	defer cancel()
	var errs []error
	for _, p := range chosen {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		begin := time.Now()
		rows, err := p.run(ctx, o)
		if err != nil {
			errs = append(errs, fmt.Errorf("part %s: %w", p.name, err))
			continue
		}
		fmt.Printf("\n%s: %s (%.0f s)\n\n", p.name, p.about, time.Since(begin).Seconds())
		errs = append(errs, printTable(os.Stdout, rows), write(o.results, p.file, rows))
	}
	return errors.Join(errs...)
}

// runPeers compares with other brokers. It prints and stores the measured rows even if something
// fails.
func runPeers(ctx context.Context, o options, only string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took more than -limit=%s", o.limit))
	defer cancel()
	report, err := peers.Run(ctx, peers.Config{
		Binary: o.binary, RabbitMQ: o.rabbitmq, NATS: o.nats, Only: only, Quick: o.quick, Log: os.Stderr,
		Time: o.peersTime, Filter: o.filter, Stuck: o.results,
	})
	if report == nil {
		return err
	}
	report.Compare()
	err = errors.Join(err, report.Print(os.Stdout))
	if o.results == "" || only != "" || o.filter != (peers.Workload{}) {
		return err
	}
	return errors.Join(err, report.Write(o.results))
}
