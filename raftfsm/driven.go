package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// injector is a transport that hands raft a call as if a peer had sent it.
type injector interface {
	Inject(ctx context.Context, command any) (any, error)
}

var errNotInjected = errors.New("the transport cannot hand raft a call of this node's own")

// State returns the member's current Raft state.
func (g *Group[R, E]) State() raft.RaftState { return g.raft.Load().State() }

// Standing reports whether the member stands for election, so that it may lead next.
func (g *Group[R, E]) Standing() bool { return g.State() == raft.Candidate && g.Failed() == nil }

// Stalled reports whether a write to disk has been in progress for longer than Config.StallTimeout,
// or Config.Hangs returns true. Changed reports a change.
func (g *Group[R, E]) Stalled() bool { return g.store.stalled() || g.c.Hangs != nil && g.c.Hangs() }

// HangsChanged must be called when the result of Config.Hangs changes; Changed then reports it.
func (g *Group[R, E]) HangsChanged() { g.watch.announce() }

// WriteAge returns for how long the current write to the storage has taken; 0 if there is none.
func (g *Group[R, E]) WriteAge() time.Duration { return g.store.writes.age() }

// Active reports whether entries were applied in the last minute.
func (g *Group[R, E]) Active() bool {
	return time.Since(g.store.base)-time.Duration(g.pusher.moved.Load()) < activeFor
}

// Idle returns the time since the last entries were applied, or since the member was opened. It is
// for driven groups.
func (g *Group[R, E]) Idle() time.Duration {
	return time.Since(g.store.base) - time.Duration(g.pusher.moved.Load())
}

// activeFor is how long a group counts as active after it applied something.
const activeFor = time.Minute

// Position returns the term and index of the log's last entry, by which members compare their logs.
func (g *Group[R, E]) Position() (term, index uint64, err error) {
	r := g.raft.Load()
	if err := g.Failed(); err != nil {
		return 0, 0, err
	}
	index = r.LastIndex()
	if f := g.snaps.latest(); f != nil && f.index == index {
		return f.term, index, nil
	}
	if index == 0 {
		return 0, 0, nil
	}
	if last, term := g.store.newest(); last == index {
		return term, index, nil
	}
	var l raft.Log
	if err := g.c.Storage.GetLog(index, &l); err != nil {
		return 0, 0, fmt.Errorf("raftfsm: group %s: last entry %d: %w", g.c.Group, index, err)
	}
	return l.Term, index, nil
}

// Campaign makes a voting follower start an election at once, even if others know a leader. It
// returns when the member is a candidate. A candidate that loses stays a candidate; StepDown makes
// it a follower again.
func (g *Group[R, E]) Campaign(ctx context.Context) error {
	refuse := func(why string) error {
		return fmt.Errorf("raftfsm: group %s: node %q cannot stand for election: %s", g.c.Group, g.c.Node, why)
	}
	switch state := g.State(); {
	case g.Failed() != nil:
		return g.stopped()
	case g.Stalled():
		return refuse("a write to its disk hangs")
	case state != raft.Follower:
		return refuse("it is a " + state.String())
	}
	if err := g.checkVotes(); err != nil {
		return refuse(err.Error())
	}
	return g.inject(ctx, &raft.TimeoutNowRequest{RPCHeader: g.header()})
}

// checkVotes refuses to stand for election without a vote, for others would answer, and nobody could win, unless the
// member is the one that leaves; and to a member that is behind.
func (g *Group[R, E]) checkVotes() error {
	if g.Behind() {
		return errBehind
	}
	voters, err := g.Members()
	if err != nil {
		return err
	}
	for _, v := range voters {
		if v == g.c.Node {
			return nil
		}
	}
	if g.Leaving() {
		return nil
	}
	return fmt.Errorf("it is none of the voters, which are %v", voters)
}

// StepDown makes a leader or a candidate a follower, in the given term, or in the term after its
// own if that is newer. It requests the member's own vote for that term with an empty log, which
// the member refuses.
func (g *Group[R, E]) StepDown(ctx context.Context, term uint64) error {
	r := g.raft.Load()
	if g.Failed() != nil {
		return g.stopped()
	}
	if r.State() == raft.Follower {
		return nil
	}
	return g.inject(ctx, &raft.RequestVoteRequest{
		RPCHeader: g.header(), Term: max(term, r.CurrentTerm()+1), LeadershipTransfer: true,
	})
}

func (g *Group[R, E]) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(g.c.Node), Addr: []byte(g.c.Node)}
}

// inject hands the member a call as if a peer had sent it.
func (g *Group[R, E]) inject(ctx context.Context, command any) error {
	t, ok := g.c.Transport.(injector)
	if !ok {
		return fmt.Errorf("raftfsm: group %s: %w", g.c.Group, errNotInjected)
	}
	if _, err := t.Inject(ctx, command); err != nil {
		return fmt.Errorf("raftfsm: group %s: %w", g.c.Group, err)
	}
	return nil
}
