// Package sim runs queues, gateways, clients and the forwarding of dead letters in one
// thread, under faults, from one seed: the same seed gives the same run to the byte.
//
// It runs the product's code: quorumq.Queue, quorumq/session, catalog, and the parts of deadletter that change and
// route a message. Around it the package models the rest: Raft as an ideal log that keeps what was committed, links
// that lose all that is on the way when they break, nodes that crash, clocks that differ. A ledger beside the
// machines follows every copy of every message and stops the run at the first rule that does not hold.
//
// Nothing here reads a clock or starts a goroutine; Run may be called concurrently.
package sim

import (
	"fmt"
	"strings"
)

// Defaults of Config.
const (
	DefaultSteps = 3000
	// MaxSteps bounds a run: events and messages are kept in memory.
	MaxSteps = 1_000_000
)

// Config is what to run. Zero values are the defaults.
type Config struct {
	Seed  uint64
	Steps int // random steps before all heals; 0: DefaultSteps
	Fault Fault
	// Basic leaves out transactions and policies about dead letters, and lets operators try
	// once, so that a seed means what it meant before there were any.
	Basic bool
	// Steady leaves out clocks that are set, and views that lag, for the same reason.
	Steady bool
}

// Validate returns what is wrong.
func (c *Config) Validate() error {
	if c.Steps < 0 || c.Steps > MaxSteps {
		return fmt.Errorf("sim: Steps = %d: want 0 (default %d) to %d", c.Steps, DefaultSteps, MaxSteps)
	}
	if c.Fault >= faults {
		return fmt.Errorf("sim: Fault = %d: want one of the Fault constants", c.Fault)
	}
	return nil
}

// Fault is a mistake that is planted between the product's parts, to show that the
// ledger sees it.
type Fault uint8

// The planted faults.
const (
	NoFault Fault = iota
	// FaultNoDedup: a target stores every transfer it gets (DL-25).
	FaultNoDedup
	// FaultEarlySettle: a forwarder settles what it has only sent (DL-21).
	FaultEarlySettle
	// FaultForgetfulSnapshot: a restored target does not know what it has stored (DL-25).
	FaultForgetfulSnapshot
	// FaultNoSequence: a gateway gives what it sends again new numbers (PUB-6).
	FaultNoSequence
	// FaultEarlyEffects: a new leader acts on entries before its Lead command; copies go
	// out twice (DL-12).
	FaultEarlyEffects
	// FaultNoResume: a gateway continues although deliveries are missing (DEL-12).
	FaultNoResume
	// FaultOpenSession: a gateway leaves a consumer's session open although a leader, perhaps a former one, did not
	// know it (DEL-12).
	FaultOpenSession
	// FaultForgetfulProducers: a queue forgets its producers when it is restored.
	FaultForgetfulProducers
	// FaultForgetfulDelays: a queue forgets when messages are due when it is restored.
	FaultForgetfulDelays
	// FaultLostMove: a queue loses what it moves to another (G-13).
	FaultLostMove
	// FaultLostBacklog: a queue loses its backlog when at-least-once ends (DL-27).
	FaultLostBacklog
	// FaultForgetfulDeadlines: a restored queue ignores requests for more time (CT-5).
	FaultForgetfulDeadlines
	// FaultHalfTransact: a queue that was restored publishes what a transaction puts in the
	// place of messages, and keeps these (G-22).
	FaultHalfTransact
	// FaultTwiceTransact: a repeated transaction publishes again (G-22).
	FaultTwiceTransact
	// FaultLostOutputs: a transaction settles, and publishes nothing (G-22).
	FaultLostOutputs
	// FaultNoHops: a forwarder does not count how often a message has died (DL-43).
	FaultNoHops
	// FaultCycles: a forwarder lets messages go round (DL-40).
	FaultCycles
	// FaultWallClock: leaders stamp by their wall clocks (TTL-8).
	FaultWallClock
	// FaultWallBack: leaders follow their wall clocks back, though not ahead (TTL-8).
	FaultWallBack
	// FaultLonelyClock: nodes do not ask others what time it is (TTL-8).
	FaultLonelyClock
	// FaultHastyClock: a leader stamps before it knows the time (TTL-8).
	FaultHastyClock
	// FaultEarlyService: a node takes clients before its view was confirmed (EX-16).
	FaultEarlyService
	// FaultOldViews: a node says by any view that there is no such queue (EX-16).
	FaultOldViews
	// FaultEarlyForwarding: a forwarder routes by what its node has stored of the catalog, before
	// the view was confirmed (DL-23).
	FaultEarlyForwarding

	faults
)

// Result are figures of a run.
type Result struct {
	Hash        uint64 // of all that happened
	Steps       int    // random steps
	Commands    uint64 // commands committed, each applied by four machines
	Messages    int    // published by clients
	DeadLetters int    // dead letters stored by targets
	Crashes     int
	Elects      int // changes of leader
	// Transactions are those that were carried out (G-22).
	Transactions int
}

// Violation is a rule that did not hold.
type Violation struct {
	Config Config
	Rule   string // what is broken, in a word or a rule's id
	Text   string
	Events []string // the last ones
}

// Error reports how to see it again.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d: %s: %s\nreplay: %s\nlast events:\n  %s", v.Config.Seed, v.Rule, v.Text, v.Config.replay(),
		strings.Join(v.Events, "\n  "))
}

// replay is the command that runs the seed again.
func (c *Config) replay() string {
	steps := c.Steps
	if steps == 0 {
		steps = DefaultSteps
	}
	return fmt.Sprintf("go test -count=1 -tags invariants -run 'TestSeeds$' ./internal/sim -args -seed %d -seeds 1 -steps %d", c.Seed, steps)
}

// Run runs one seed until all published messages are accounted for. The error is a
// *Violation, or reports that the Config is wrong.
func Run(c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	if c.Steps == 0 {
		c.Steps = DefaultSteps
	}
	w := newWorld(c)
	for w.result.Steps = 0; w.result.Steps < c.Steps && w.broken == nil; w.result.Steps++ {
		w.step()
	}
	w.drain()
	w.result.Hash = w.trace.sum
	if w.broken != nil {
		return w.result, w.broken
	}
	return w.result, nil
}
