// Package storesim is a seeded model of a cluster whose disks are lost and replaced: a
// catalog group and a queue's group, with terms, votes, logs and configurations, on nodes
// that crash, lose their data directory or their catalog's log, and whose links break.
//
// The rules by which a store is known, refused, replaced and taken back, by which a node takes
// part when it starts, and by which the members of a queue change are the product's own, of
// packages catalog and cluster/metadata. Around them the package models Raft as the paper has
// it, and what a node does about its members (docs/adr/0006, docs/adr/0017). A run stops at the
// first committed entry that an elected leader does not have, and at the first node that deletes
// a member while the group still counts on it, and fails if the cluster is not whole again after
// all has healed.
//
// Nothing here reads a clock or starts a goroutine; Run may be called concurrently.
package storesim

import (
	"fmt"
	"strings"
)

// DefaultSteps is how many random steps a run has before all heals.
const DefaultSteps = 2000

// Fault is a mistake that is planted, to show that the model sees it.
type Fault uint8

// The planted faults.
const (
	NoFault Fault = iota
	// FaultNoStores: nodes are known by their id alone.
	FaultNoStores
	// FaultPeersAlone: a store that was not admitted relies on its peers to refuse it.
	FaultPeersAlone
	// FaultEmptyMember: a node opens members empty in whose place it had others.
	FaultEmptyMember
	// FaultRefill: a catalog member that lost its log takes entries before it was taken out.
	FaultRefill
	// FaultNoBase: members that begin with nothing vote and answer for anybody, as their former ones did.
	FaultNoBase
)

// Config is what to run. Zero values are the defaults.
type Config struct {
	Seed  uint64
	Steps int // 0: DefaultSteps
	Fault Fault
}

// Result are figures of a run.
type Result struct {
	Steps, Commits, Elections, Crashes, Wiped, Lost, Replaced, Forgotten, Moved int
}

// add adds up the figures of another run.
func (r *Result) add(o Result) {
	r.Steps += o.Steps
	r.Commits += o.Commits
	r.Elections += o.Elections
	r.Crashes += o.Crashes
	r.Wiped += o.Wiped
	r.Lost += o.Lost
	r.Replaced += o.Replaced
	r.Forgotten += o.Forgotten
	r.Moved += o.Moved
}

// Violation is what must not be.
type Violation struct {
	Config Config
	Rule   string // a rule's id, or words
	Text   string
	Stuck  bool     // nothing was lost, but the cluster is not whole again
	Events []string // the last ones
}

// Error reports how to see it again.
func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d: %s: %s\nreplay: go test -count=1 -run 'TestSeeds$' ./internal/storesim -args -seed %d -seeds 1\nlast events:\n  %s",
		v.Config.Seed, v.Rule, v.Text, v.Config.Seed, strings.Join(v.Events, "\n  "))
}

// Run runs one seed. The error is a *Violation.
func Run(c Config) (Result, error) {
	if c.Steps == 0 {
		c.Steps = DefaultSteps
	}
	w := newWorld(c)
	for w.result.Steps = 0; w.result.Steps < c.Steps && w.broken == nil; w.result.Steps++ {
		w.step()
	}
	w.heal()
	if w.broken != nil {
		return w.result, w.broken
	}
	return w.result, nil
}
