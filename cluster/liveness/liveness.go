// Package liveness judges which nodes are alive by the heartbeats between them, and lets
// members of Raft groups stand for election when the node of their leader is not. The
// groups' own timers are off, so that ten thousand idle ones cost nothing.
//
// A peer is lost when its connection is down, or when it has not answered for
// Config.SuspectAfter on this node's own connection: an answer has gone both ways, so that a
// peer that only hears, or is only heard, is lost too. If gossip considers it dead, that time is halved. A peer that
// reports a hanging disk is alive, but unfit as leader.
//
// No member campaigns on its own knowledge alone. A node asks the other voters' nodes what they know, one message to
// each for all groups in need; only if a majority finds no leader alive does the member with the newest log campaign,
// and the next one if that does not help. Two survivors that campaign at the same time would both lose, and with
// timers off wait for ever; one that is stuck is made a follower again.
//
// Deciding is done by type core, which only computes. Manager is the loop around it.
package liveness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Group is this node's member of a group. raftfsm.Group implements it. Campaign and
// StepDown may wait for the group's disk; the others must not block.
type Group interface {
	State() raft.RaftState
	Leader() (leader id.NodeID, term uint64)
	Servers() (voters, nonvoters []id.NodeID, err error)
	Position() (lastTerm, lastIndex uint64, err error)
	Active() bool
	Leading() bool // it leads and has committed in its term
	Stalled() bool
	Failed() error
	// Behind reports that the member must not stand: it lacks a part of what its group had when it joined.
	Behind() bool
	// VotesFor reports whether the member would vote for one whose log ends so, if that is as new as its own.
	VotesFor(lastTerm, lastIndex uint64) bool
	// Leaving reports that the member is out of the newest configuration, but in the newest committed one.
	Leaving() bool
	Campaign(ctx context.Context) error
	StepDown(ctx context.Context, term uint64) error
	// Push lets a leader notify its followers that it leads, soon.
	Push()
}

// Transport leads to this node's peers. transport.Mux implements it.
type Transport interface {
	// Silent reports for how long an answer of the peer has been missing, and whether its connections are up.
	Silent(n id.NodeID) (d time.Duration, up bool)
	// Overdue reports for how long the peer's next heartbeat has been due.
	Overdue(n id.NodeID) time.Duration
	// Say sends a heartbeat to every peer soon, instead of only when the next one is due. It does not block.
	Say()
	// Client returns the peer's calls.
	Client(n id.NodeID) (nodev1.NodeClient, error)
}

// Surveyed is a group with the log of the member that asks.
type Surveyed struct {
	Group     id.GroupID
	LastTerm  uint64
	LastIndex uint64
}

// Answer is what a node knows of a group that it was asked for.
type Answer struct {
	Votes         bool // it has a member that would vote for the asking node; the log is that member's
	LastTerm      uint64
	LastIndex     uint64
	Leads         bool // it leads the group
	HasLiveLeader bool // it knows a leader that it finds alive
	Campaigning   bool // it stands for election just now
}

// Config describes a node's Manager. Zero values are the defaults.
type Config struct {
	Node      id.NodeID
	Transport Transport
	// Dead is a second opinion: it reports nodes that gossip holds for dead. nil: none.
	Dead func(n id.NodeID) bool
	// Drains reports that a node, which may be this one, is to lead nothing that another one can lead; nil: none does. It
	// must not block.
	Drains func(n id.NodeID) bool
	// Judged is called when a node is found lost, or no longer lost; nil: nothing is called. It must not block.
	Judged func()
	Logger *slog.Logger // nil: slog.DiscardHandler

	Tick            time.Duration // between checks while something is to be done; 0: 50 ms
	Rest            time.Duration // between checks while nothing is, and no heartbeat is late; 0: 1 s
	SuspectAfter    time.Duration // a peer without an answer is lost; 0: 400 ms
	LeaderlessAfter time.Duration // a group without a leader is in need; 0: 300 ms
	MismatchAfter   time.Duration // a peer's heartbeats and what groups know differ: ask it; 0: 300 ms
	TurnAfter       time.Duration // from one candidate's turn to the next one's; 0: 300 ms
	ProveAfter      time.Duration // a new leader that has not committed is helped; 0: 1 s
	QuorumTimeout   time.Duration // a leader that reaches no quorum's nodes steps down; 0: 1 s
	SurveyTimeout   time.Duration // for the answer of a peer; 0: 500 ms
	MaxElections    int           // elections at the same time; 0: 256
}

// Limits beside those of Config.
const (
	// maxSurveyed bounds the groups in one message of a survey.
	maxSurveyed = 4096
	// maxPushes bounds the groups whose followers are notified of their leader per tick.
	maxPushes = 256
	// maxWait bounds every wait between two attempts.
	maxWait = 3 * time.Second
	// maxAskWait bounds the wait between two questions to a peer whose heartbeats stay at odds
	// with what is known here.
	maxAskWait = 10 * time.Second
	// giveUpAfter is how many times Config.ProveAfter a leader may lead without a commit
	// although it reaches a quorum's nodes.
	giveUpAfter = 5
	// actTimeout bounds Campaign and StepDown.
	actTimeout = 5 * time.Second
	// checkEvery is the least interval between checks of groups that are not as they should be, and of members
	// without a configuration, in case a change has gone unnoticed. At rest it is Config.Rest.
	checkEvery = 400 * time.Millisecond
	// maxChecked bounds how many of each kind are checked each time: after a start thousands are in need, and
	// checking all of them would take half of the node's capacity.
	maxChecked = 512
	// maxLocked bounds the groups of a survey that are answered without releasing the lock.
	maxLocked = 64
	// sweepChecks is in how many such checks all other groups are checked once.
	sweepChecks = 60
)

// Validate returns all faults of the Config at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("liveness: "+format, args...)) }
	if c.Node == "" {
		fault("Node is empty: set the node's id")
	}
	if c.Transport == nil {
		fault("Transport is nil: set what leads to the peers")
	}
	if c.MaxElections < 0 {
		fault("MaxElections is %d: set a positive number, or 0 for the default", c.MaxElections)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Tick", c.Tick},
		{"Rest", c.Rest},
		{"SuspectAfter", c.SuspectAfter},
		{"LeaderlessAfter", c.LeaderlessAfter},
		{"MismatchAfter", c.MismatchAfter},
		{"TurnAfter", c.TurnAfter},
		{"ProveAfter", c.ProveAfter},
		{"QuorumTimeout", c.QuorumTimeout},
		{"SurveyTimeout", c.SurveyTimeout},
	} {
		if d.value < 0 {
			fault("%s is %v: set a positive duration, or 0 for the default", d.name, d.value)
		}
	}
	return errors.Join(faults...)
}

// withDefaults is called after Validate.
func (c Config) withDefaults() Config {
	or := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	or(&c.Tick, 50*time.Millisecond)
	or(&c.Rest, time.Second)
	or(&c.SuspectAfter, 400*time.Millisecond)
	or(&c.LeaderlessAfter, 300*time.Millisecond)
	or(&c.MismatchAfter, 300*time.Millisecond)
	or(&c.TurnAfter, 300*time.Millisecond)
	or(&c.ProveAfter, time.Second)
	or(&c.QuorumTimeout, time.Second)
	or(&c.SurveyTimeout, 500*time.Millisecond)
	if c.MaxElections == 0 {
		c.MaxElections = 256
	}
	if c.Dead == nil {
		c.Dead = func(id.NodeID) bool { return false }
	}
	if c.Drains == nil {
		c.Drains = func(id.NodeID) bool { return false }
	}
	if c.Judged == nil {
		c.Judged = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
