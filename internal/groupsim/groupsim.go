// Package groupsim runs the members of a Raft group, three or five of them, through faults that a seed decides. It
// runs the product's code: raftfsm over its log, wal, with hashicorp/raft in between. Disks and network are
// simulated: disks in memory whose syncs take time and can hang, and a network that delays, and holds back, each call
// separately. The power of one member or of several is cut at any moment, most of all just after a member has voted,
// or has answered for entries of a term that is new to it, and comes back soon.
//
// A run ends at the first rule that does not hold:
//
//   - A member gives one vote in a term, and does not go back to a term before the one it has acted in, whatever its
//     power did. A term has one leader.
//   - A confirmed command is on the disks of a majority when it is confirmed, and there in the end; none is invented or
//     there twice (PUB-5 to PUB-7).
//   - A member starts after a power cut, and no member stops by itself.
//   - A leader whose disk hangs is replaced (RE-2), and when nothing more is broken the group is led, and its members
//     are equal.
//
// A seed decides the schedule of faults, and not how goroutines fall in between: the same seed is the same schedule, and
// not quite the same run. Members do not change, no snapshot is taken, and a disk returns what it was given; that is for
// package nodesim and for the tests of package raftfsm.
package groupsim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// DefaultActs is how many acts a run has before all heals.
const DefaultActs = 40

// Config is what is run.
type Config struct {
	Seed uint64
	Acts int    // 0: DefaultActs
	Dir  string // an empty directory; members keep the one of their snapshots there, of which there are none
}

// Result are figures of a run. AtVotes and AtEntries are the power cuts just after a vote, and just after the first answer
// for entries of a term.
type Result struct {
	Sent, Confirmed, Terms, Cuts, AtVotes, AtEntries, Hangs int
}

// Add adds up the figures of another run.
func (r *Result) Add(o Result) {
	r.Sent += o.Sent
	r.Confirmed += o.Confirmed
	r.Terms += o.Terms
	r.Cuts += o.Cuts
	r.AtVotes += o.AtVotes
	r.AtEntries += o.AtEntries
	r.Hangs += o.Hangs
}

// Violation is a rule that did not hold.
type Violation struct {
	Seed     uint64
	Rule     string // a rule's id, or words
	Text     string
	Schedule []string // what was done before
}

// Error reports how to run the schedule again.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d: %s: %s\nreplay: go test -count=1 -tags invariants -run 'TestSeeds$' ./internal/groupsim -args -seed %d -seeds 1\nschedule:\n  %s",
		v.Seed, v.Rule, v.Text, v.Seed, strings.Join(v.Schedule, "\n  "))
}

// run is a group, and what is done to it. Its goroutine owns what has no lock of its own.
type run struct {
	cfg   Config
	rng   *rand.Rand // decides the schedule, and nothing else draws from it
	dice  *dice      // decides all that happens in between
	nodes []*node
	began time.Time
	acts  []string

	ending chan struct{}
	loads  sync.WaitGroup
	quiet  atomic.Bool  // nothing more is proposed
	slow   atomic.Int64 // how long a call or an answer takes at most, in ns

	mu     sync.Mutex // guards what follows, and what nodes say that it guards
	rules  *rules
	calm   bool // no power is cut by chance
	result Result
	// changed is closed, and made again, when a call that waits may go on.
	changed chan struct{}
	blocked map[[2]*node]bool // links, from and to, that hold back what is sent
}

// Run runs one seed. It has to be called in a bubble of testing/synctest, and takes minutes of its clock. The error
// is a *Violation, or the reason why the members could not be set up.
func Run(c Config) (Result, error) {
	if c.Acts == 0 {
		c.Acts = DefaultActs
	}
	r := &run{
		cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 0x67726f7570)), dice: newDice(c.Seed), began: time.Now(), rules: newRules(),
		ending: make(chan struct{}), changed: make(chan struct{}), blocked: map[[2]*node]bool{}, calm: true,
	}
	defer r.end()
	if err := r.found(); err != nil {
		return r.result, err
	}
	for range c.Acts {
		if r.broken() != nil {
			break
		}
		r.act()
		r.pause(time.Duration(r.rng.IntN(300)) * time.Millisecond)
		r.look()
	}
	r.heal()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Sent, r.result.Confirmed, r.result.Terms = len(r.rules.fates), r.rules.confirmed(), len(r.rules.leaders)
	if v := r.rules.first; v != nil {
		v.Seed, v.Schedule = c.Seed, r.acts
		return r.result, v
	}
	return r.result, nil
}

// found starts all members, and what proposes.
func (r *run) found() error {
	var names []id.NodeID
	for i := range 3 + 2*r.rng.IntN(2) {
		n := newNode(r, i)
		r.nodes, names = append(r.nodes, n), append(names, n.id)
	}
	for _, n := range r.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	for _, n := range r.nodes {
		if err := n.live.group.Bootstrap(names); err != nil {
			return err
		}
	}
	r.rest()
	for i := range clients {
		r.loads.Go(func() { r.propose(i) })
	}
	r.stir()
	return nil
}

// still lets no power be cut by chance.
func (r *run) still() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm = true
}

// stir ends still.
func (r *run) stir() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm = false
}

// end stops what is left of the run.
func (r *run) end() {
	r.still()
	close(r.ending)
	r.unblock()
	r.loads.Wait()
	for _, n := range r.nodes {
		n.cut(nil, vfs.LoseNone)
	}
}

// say records an act of the schedule.
func (r *run) say(format string, args ...any) {
	r.acts = append(r.acts, fmt.Sprintf("%6d ms  ", time.Since(r.began).Milliseconds())+fmt.Sprintf(format, args...))
}

// pause lets the members and their clients go on for a while.
func (r *run) pause(d time.Duration) {
	<-time.After(d)
}

// broke records a rule that does not hold.
func (r *run) broke(rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules.broke(rule, format, args...)
}

// broken returns the rule that broke first; nil: none has.
func (r *run) broken() *Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rules.first
}

// dice are random numbers for many goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 0x64696365))} }

// hit reports whether something happens that does in so many cases of a hundred.
func (d *dice) hit(percent int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(100) < percent
}

// between returns a duration from least up to most.
func (d *dice) between(least, most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return least + time.Duration(d.r.Int64N(int64(max(most-least, 0))+1))
}

// loss returns one of the ways in which a power cut loses what was not synced.
func (d *dice) loss() vfs.Loss {
	d.mu.Lock()
	defer d.mu.Unlock()
	return vfs.Loss(d.r.IntN(int(vfs.Losses)))
}
