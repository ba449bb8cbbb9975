// Command stress repeats the tests that look for rare faults, with other seeds each time, until its
// time is over: power losses and elections, the simulation, real processes under all faults, and
// once the race detector. Every piece prints a line; a failed one also prints its last output and
// the command that repeats it. The last line has the counts.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// main exits with 1 if a piece failed or was interrupted.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	length := flag.Duration("time", 15*time.Minute, "time after which no piece starts; each piece runs at least once")
	seed := flag.Uint64("seed", 1, "seed of the first round; each further round uses the next number")
	only := flag.String("only", "", "run only the pieces whose name contains this; empty: all")
	flag.Parse()
	if *length < 0 {
		fmt.Fprintf(os.Stderr, "stress: -time is %v: use 0 for one round, or more\n", *length)
		os.Exit(2)
	}
	chosen := slices.DeleteFunc(pieces(), func(p piece) bool { return !strings.Contains(p.name, *only) })
	if len(chosen) == 0 {
		fmt.Fprintf(os.Stderr, "stress: -only %q: no piece's name contains that\n", *only)
		os.Exit(2) //nolint:gocritic // nothing has begun
	}
	if failed := run(ctx, os.Stdout, chosen, *length, *seed); failed > 0 || ctx.Err() != nil {
		os.Exit(1)
	}
}

// piece is a command and its environment for a seed.
type piece struct {
	name string
	once bool // in the first round only
	env  func(seed string) []string
	args func(seed string) []string
}

// Sizes of one round.
const (
	crashRuns  = "200"
	walSeeds   = "200"
	failovers  = "200"
	simSeeds   = 2000
	chaosTime  = "60s"
	testLimit  = "20m" // of a test binary
	pieceLimit = 25 * time.Minute
	shownBytes = 6000 // of the output of a piece that failed
)

// concurrent are the packages whose goroutines share memory.
func concurrent() []string {
	return []string{
		"./wal/...", "./raftfsm/...", "./cluster/...", "./broker/...", "./deadletter/...", "./grpcapi/...", "./client/...",
	}
}

func goTest(args ...string) []string {
	return append([]string{"go", "test", "-tags", "invariants", "-count=1", "-timeout", testLimit}, args...)
}

// pieces lists the pieces, each a process of its own.
func pieces() []piece {
	none := func(string) []string { return nil }
	same := func(args ...string) func(string) []string { return func(string) []string { return args } }
	return []piece{
		{
			name: "power losses of groups that sync late", once: true,
			env:  same("QUORATE_TEST_CRASH_RUNS=" + crashRuns),
			args: same(goTest("-run", "^TestPowerLoss", "./raftfsm")...),
		},
		{
			name: "the log: a crash or failure at every step, random operations", once: true,
			env:  same("QUORATE_WAL_SEEDS=" + walSeeds),
			args: same(goTest("-run", "Crash|Fails|RandomOperations", "./wal")...),
		},
		{
			name: "elections by links under faults",
			env: func(seed string) []string {
				return []string{"QUORATE_STRESS_SEED=" + seed, "QUORATE_STRESS_FAILOVERS=" + failovers}
			},
			args: same(goTest("-run", "^TestStress$", "./cluster/liveness")...),
		},
		{
			name: "a leader's node stops, again and again",
			env:  same("QUORATE_TEST_LINKS=1"), args: same(append(goTest("-run", "^TestLeaderIsReplaced$"), "-count=3", "./cluster")...),
		},
		{
			name: "simulation in one thread", env: none,
			args: func(seed string) []string {
				n, _ := strconv.ParseUint(seed, 10, 64) // the seed was read as a number
				return append(goTest("./internal/sim"), "-args", "-seed", strconv.FormatUint(n*simSeeds, 10), "-seeds", strconv.Itoa(simSeeds))
			},
		},
		{
			name: "processes under faults", env: none,
			args: func(seed string) []string {
				return []string{"bin/quoratectl", "chaos", "run", "--seed", seed, "--time", chaosTime}
			},
		},
		{
			name: "behaviour of the pinned hashicorp/raft", env: none,
			args: same(append(goTest("-run", "^TestTrap"), "-count=5", "./raftfsm")...),
		},
		{name: "race detector", once: true, env: none, args: same(append(goTest("-race", "-short"), concurrent()...)...)},
	}
}

// run runs the rounds and returns how many pieces failed.
func run(ctx context.Context, to io.Writer, chosen []piece, length time.Duration, first uint64) (failed int) {
	begin := time.Now()
	passed := 0
	for round := first; ; round++ {
		for _, p := range chosen {
			over := round > first && (time.Since(begin) >= length || p.once)
			if over || ctx.Err() != nil {
				continue
			}
			if p.run(ctx, to, strconv.FormatUint(round, 10)) {
				passed++
			} else {
				failed++
			}
		}
		if time.Since(begin) >= length || ctx.Err() != nil {
			break
		}
	}
	say(to, "stress: %d passed, %d failed in %v\n", passed, failed, time.Since(begin).Round(time.Second))
	return failed
}

// run runs a piece within pieceLimit and prints its command. It prints its output only if the piece
// failed.
func (p piece) run(ctx context.Context, to io.Writer, seed string) bool {
	ctx, cancel := context.WithTimeout(ctx, pieceLimit)
	defer cancel()
	begin := time.Now()
	args, env := p.args(seed), p.env(seed)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	word := "ok    "
	if err != nil {
		word = "FAILED"
	}
	say(to, "%s %7.1fs  seed %s  %s\n", word, time.Since(begin).Seconds(), seed, p.name)
	if err != nil {
		text := out.Bytes()
		say(to, "%s\n%v; again: %s\n", text[max(0, len(text)-shownBytes):], err, strings.Join(append(env, args...), " "))
	}
	return err == nil
}

func say(to io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(to, format, args...) // an error in writing to the screen changes nothing
}
