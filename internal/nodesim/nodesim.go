// Package nodesim runs clusters of real nodes, in one process and on loopback, through faults that a seed
// decides: nodes are killed and started in any order, all of them too; power cuts lose what the log of queues
// has not synced; a disk is wiped and comes back empty under the same id, or members of queues are rebuilt, taken out
// and added; wall clocks are set; what others send to a node stands still. Meanwhile clients declare queues and
// publish.
//
// A run ends at the first rule that does not hold: a confirmed message is lost, one is invented or stored twice
// (PUB-5 to PUB-7); a declared queue is gone, or is another one; two nodes lead a group in one term; a node
// answers from an old view of the catalog that something does not exist (EX-16); a change of members does not end
// (RE-3); the cluster is not whole again after all has healed, or ends a consumer then (DC-1).
//
// A seed decides which faults there are, in which order, how far apart, and what a power cut leaves. It does not decide
// how goroutines, sockets and timers fall in between: the same seed is the same schedule, and not the same run.
// Run may be called concurrently.
package nodesim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultActs is how many acts a run has before all heals.
const DefaultActs = 14

// Config is what is run.
type Config struct {
	Seed uint64
	Acts int          // 0: DefaultActs
	Dir  string       // an empty directory for the nodes' data
	Log  slog.Handler // of the nodes; nil: none
}

// Result are figures of a run.
type Result struct {
	Confirmed, Cuts, Stops, Wipes, Changes, Queues int
}

// Violation is a rule that did not hold.
type Violation struct {
	Seed     uint64
	Rule     string // a rule's id, or a word
	Text     string
	Schedule []string // what was done before
}

// Error reports how to run the schedule again.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d: %s: %s\nreplay: go test -count=1 -tags invariants -run 'TestSeeds$' ./internal/nodesim -args -seed %d -seeds 1\nschedule:\n  %s",
		v.Seed, v.Rule, v.Text, v.Seed, strings.Join(v.Schedule, "\n  "))
}

// run is a cluster, and what is done to it. Its goroutine owns all that has no lock of its own.
type run struct {
	cfg    Config
	rng    *rand.Rand // decides the schedule, and nothing else draws from it
	nodes  [members]*node
	ledger *ledger
	began  time.Time
	acts   []string
	result Result

	wiped    int // the node whose disk was wiped; -1: none yet
	replaced bool
	queues   int // that were to be declared
	// changes: members are changed in this run, and no disk is wiped, as a group may have two members meanwhile.
	changes bool

	ending chan struct{}
	loads  sync.WaitGroup
	quiet  atomic.Bool // nothing more is published
}

// Run runs one seed. The error is a *Violation, or the reason why the nodes could not be set up.
func Run(ctx context.Context, c Config) (Result, error) {
	if c.Acts == 0 {
		c.Acts = DefaultActs
	}
	r := &run{
		cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 0x6e6f6465)), ledger: newLedger(),
		began: time.Now(), wiped: -1, ending: make(chan struct{}),
	}
	r.changes = r.rng.IntN(2) == 0
	defer r.end()
	if err := r.found(ctx); err != nil {
		return r.result, err
	}
	for range c.Acts {
		if r.ledger.broken() != nil || ctx.Err() != nil {
			break
		}
		r.act(ctx)
		r.pause(ctx, time.Duration(r.rng.IntN(400))*time.Millisecond)
	}
	r.heal(ctx)
	r.result.Confirmed = r.ledger.count()
	r.result.Queues = len(r.ledger.declared())
	if v := r.ledger.broken(); v != nil {
		v.Seed, v.Schedule = c.Seed, r.acts
		return r.result, v
	}
	return r.result, ctx.Err()
}

// end stops what is left of the run.
func (r *run) end() {
	close(r.ending)
	r.loads.Wait()
	for _, n := range r.nodes {
		if n != nil {
			n.stop()
		}
	}
}

// say records an act of the schedule.
func (r *run) say(format string, args ...any) {
	r.acts = append(r.acts, fmt.Sprintf("%5d ms  ", time.Since(r.began).Milliseconds())+fmt.Sprintf(format, args...))
}

// pause lets the nodes and their clients go on for a while.
func (r *run) pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
