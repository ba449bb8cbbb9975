package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Base is where a group stood when a member began with nothing under the id of a node that may have
// voted in it before: the term of its leader, and an index up to which all was committed, a
// configuration without a vote for the node included. Entries of older leaders end before it, so a log
// that is as new as a Base, as Raft compares logs, has all of that
// (docs/adr/0006-changes-of-members.md). The zero value is older than any log.
type Base struct{ Term, Index uint64 }

// exceeds reports whether a log that ends so is older.
func (b Base) exceeds(term, index uint64) bool {
	return b.Term > term || b.Term == term && b.Index > index
}

var (
	// errBehind refuses a part in an election to, and from, a member whose log is older than its base.
	errBehind = errors.New("its log is older than the group was when it joined, and others may take it for the node's former member")
	// ErrVotes refuses a base to a node that the configuration in force counts on: what its former
	// member has promised still counts.
	ErrVotes = errors.New("it has a vote, so it cannot begin with nothing")
)

// BaseFor is Base for a node whose member is to begin with nothing. It fails with ErrVotes if the node
// has a vote, and while the configuration is not committed.
func (g *Group[R, E]) BaseFor(ctx context.Context, n id.NodeID) (Base, error) {
	at, err := g.Configuration()
	switch {
	case err != nil:
		return Base{}, err
	case !at.Committed():
		return Base{}, fmt.Errorf("raftfsm: group %s: a base for node %q: %w", g.c.Group, n, errUncommitted)
	case slices.Contains(at.Voters, n):
		return Base{}, fmt.Errorf("raftfsm: group %s: a base for node %q: %w: voters are %q", g.c.Group, n, ErrVotes, at.Voters)
	}
	return g.Base(ctx) // if it leads, what was committed before is committed still
}

// Base returns the group's term and committed index, if this member leads and has applied its Lead command, and a
// majority of the voters confirms that. It fails with a *NotLeaderError if another member may lead.
func (g *Group[R, E]) Base(ctx context.Context) (Base, error) {
	r := g.raft.Load()
	term := g.leading.term.Load()
	if term == 0 || leaderTerm(r) != term {
		return Base{}, g.notLeader()
	}
	b := Base{Term: term, Index: r.CommitIndex()} // the Lead command of the term is committed, so this entry is of the term
	if err := g.Verify(ctx); err != nil {
		return Base{}, err
	}
	if leaderTerm(r) != term {
		return Base{}, g.notLeader()
	}
	return b, nil
}

// Begin sets the base of a member that has nothing and has answered no call yet. When it returns,
// the term is durable. A member that has its base when it is opened gets it by Config.Base.
func (g *Group[R, E]) Begin(ctx context.Context, b Base) error {
	g.base.Store(&b)
	if g.raft.Load().CurrentTerm() < b.Term {
		err := g.inject(ctx, &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: b.Term})
		if err != nil {
			return err
		}
	}
	if err := g.c.Storage.Sync(); err != nil {
		return fmt.Errorf("raftfsm: group %s: storing the term of its base: %w", g.c.Group, err)
	}
	return nil
}

// raiseTerm makes a member that is opened with a base know its term: from then on no older leader
// gets an answer from it.
func (c *Config[R, E]) raiseTerm() error {
	term, err := c.Storage.GetUint64([]byte(keyTerm))
	if err != nil && !isNotFound(err) {
		return err
	}
	if term >= c.Base.Term {
		return nil
	}
	if err := c.Storage.SetUint64([]byte(keyTerm), c.Base.Term); err != nil {
		return err
	}
	return c.Storage.Sync()
}

// Behind reports whether the member's log is older than its base. Then it must not stand for
// election: the configurations that it knows may be from before its node left.
func (g *Group[R, E]) Behind() bool {
	b := g.base.Load()
	if *b == (Base{}) {
		return false
	}
	if g.raft.Load() == nil {
		return true
	}
	term, index, err := g.Position()
	if err != nil || b.exceeds(term, index) {
		return true
	}
	g.base.CompareAndSwap(b, &Base{}) // the log never gets older, as all up to the base is committed
	return false
}

// barred reports whether the member stands, by raft's own timers, although it is behind. Raft gives its first votes before it
// is known here, and stands later.
func (g *Group[R, E]) barred() bool {
	r := g.raft.Load()
	return r != nil && r.State() == raft.Candidate && g.Behind()
}

// VotesFor reports whether the member may vote for a candidate whose log ends so. One that is behind votes only for a
// candidate that has all that its group had when it began: an older candidate may count the vote as that of the
// node's former member.
func (g *Group[R, E]) VotesFor(lastTerm, lastIndex uint64) bool {
	return !g.base.Load().exceeds(lastTerm, lastIndex) || !g.Behind()
}

// Leaving reports whether the newest configuration has no vote for this member, but is not known to
// be committed, and the one before has. Until it is committed, the member may be the only one that
// is left with the newest log: it has to stand, if its group has no leader (Raft, 4.2.2).
func (g *Group[R, E]) Leaving() bool {
	committed := g.configured.Load()
	newest := g.configuration()
	if committed == nil || newest == nil {
		return false
	}
	return votesIn(committed.servers, g.c.Node) && !votesIn(newest.Servers, g.c.Node)
}

// votesIn reports whether a node is among the voters.
func votesIn(servers []raft.Server, n id.NodeID) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == raft.ServerID(n) && s.Suffrage == raft.Voter })
}

// hear judges a call before raft has it, and returns what raft is to have, or why it is to have nothing.
//
// Raft refuses its vote to whoever is not in its own newest configuration. A member that lacks the
// newest entries would so keep those from being elected that have joined since, even if nobody else
// is left. So raft does not get the id of a candidate whose log is newer; it knows it by the address.
// In a driven group nobody stands without the consent of a majority, so that members that
// were removed disturb nobody.
func (g *Group[R, E]) hear(command any) (any, error) {
	switch c := command.(type) {
	case *raft.AppendEntriesRequest:
		return g.withoutApplied(c), nil
	case *raft.RequestVoteRequest:
		if !g.VotesFor(c.LastLogTerm, c.LastLogIndex) {
			return nil, errBehind
		}
		if g.c.Driven && len(c.Addr) > 0 && g.outrun(c.LastLogTerm, c.LastLogIndex) {
			anonymous := *c
			anonymous.ID = nil
			return &anonymous, nil
		}
	case *raft.RequestPreVoteRequest:
		if !g.VotesFor(c.LastLogTerm, c.LastLogIndex) {
			return nil, errBehind
		}
	case *raft.TimeoutNowRequest:
		if g.Behind() {
			return nil, errBehind
		}
	}
	return command, nil
}

// outrun reports whether a log that ends so is newer than the member's own.
func (g *Group[R, E]) outrun(lastTerm, lastIndex uint64) bool {
	if g.raft.Load() == nil {
		return false
	}
	term, index, err := g.Position()
	return err == nil && Base{Term: lastTerm, Index: lastIndex}.exceeds(term, index)
}
