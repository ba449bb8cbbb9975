package raftfsm

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// baseTimeout limits elections that must fail.
const baseTimeout = 3 * time.Second

// voteOf asks a member for its vote as a candidate of a term whose log ends so.
func (c *testCluster) voteOf(m *member, candidate id.NodeID, term, lastTerm, lastIndex uint64) (granted bool, err error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), deadline)
	defer cancel()
	r, err := m.transport.Inject(ctx, &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(candidate), Addr: []byte(candidate)},
		Term:      term, LastLogTerm: lastTerm, LastLogIndex: lastIndex, LeadershipTransfer: true,
	})
	if err != nil {
		return false, err
	}
	answer, ok := r.(*raft.RequestVoteResponse)
	if !ok {
		c.t.Fatalf("the answer is a %T", r)
	}
	return answer.Granted, nil
}

// A leader says how far its group is, unless it is asked by a voter, or another member may lead.
func TestBaseFor(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("x")
	c.equal()
	l := c.leader()
	b, err := l.group.BaseFor(t.Context(), "n4")
	if _, term := l.group.Leader(); err != nil || b.Term != term || b.Index < 3 {
		t.Errorf("base %+v, %v, in term %d", b, err, term)
	}
	var entry raft.Log
	if err := l.storage.GetLog(b.Index, &entry); err != nil || entry.Term != b.Term {
		t.Errorf("the entry is of term %d, %v", entry.Term, err)
	}
	if _, err := l.group.BaseFor(t.Context(), "n2"); !errors.Is(err, ErrVotes) {
		t.Errorf("for a voter: %v", err)
	}
	var not *NotLeaderError
	if _, err := c.follower().group.BaseFor(t.Context(), "n4"); !errors.As(err, &not) {
		t.Errorf("by a follower: %v", err)
	}
	c.disconnect(l)
	ctx, cancel := context.WithTimeout(t.Context(), baseTimeout)
	defer cancel()
	if b, err := l.group.BaseFor(ctx, "n4"); err == nil {
		t.Errorf("a leader that is alone gives base %+v", b)
	}
}

// A member that joins with nothing votes for nobody who lacks what its group had, and answers no leader of
// before, from its first moment on and over restarts. It does not stand either. Once it has all of that, it is
// like the others.
func TestBehind(t *testing.T) {
	t.Parallel()
	c := newDriven(t, func(m *member, config *Config[reply, string]) {
		if m.node == "n4" {
			config.Base = Base{Term: 7, Index: 50}
		}
	})
	c.propose("x")
	joiner := &member{node: "n4", dir: t.TempDir()}
	c.open(joiner)
	t.Cleanup(func() { _ = joiner.group.Close() })
	check := func(when string) {
		t.Helper()
		g := joiner.group
		if _, term := g.Leader(); term != 7 {
			t.Errorf("%s: in term %d", when, term)
		}
		if !g.Behind() || g.VotesFor(7, 49) || g.VotesFor(6, 90) || !g.VotesFor(7, 50) || !g.VotesFor(8, 1) {
			t.Errorf("%s: behind %v, votes %v %v %v %v", when, g.Behind(), g.VotesFor(7, 49), g.VotesFor(6, 90), g.VotesFor(7, 50), g.VotesFor(8, 1))
		}
		for _, last := range [][2]uint64{{7, 49}, {6, 90}, {0, 0}} {
			if granted, err := c.voteOf(joiner, "n1", 20, last[0], last[1]); granted || !errors.Is(err, errBehind) {
				t.Errorf("%s: vote for a log that ends at %v: %v, %v", when, last, granted, err)
			}
		}
		for _, call := range []any{
			&raft.RequestPreVoteRequest{RPCHeader: c.members[0].group.header(), Term: 20, LastLogTerm: 6, LastLogIndex: 90},
			&raft.TimeoutNowRequest{RPCHeader: c.members[0].group.header()},
		} {
			if _, err := joiner.transport.Inject(t.Context(), call); !errors.Is(err, errBehind) {
				t.Errorf("%s: %T: %v", when, call, err)
			}
		}
		old := &raft.AppendEntriesRequest{
			RPCHeader: c.members[0].group.header(), Term: 6,
			Entries: []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(raft.Configuration{
				Servers: []raft.Server{{ID: "n4", Address: "n4"}},
			})}},
		}
		answer, err := joiner.transport.Inject(t.Context(), old)
		if a, ok := answer.(*raft.AppendEntriesResponse); err != nil || !ok || a.Success || a.Term != 7 || g.Stats().LastIndex != 0 {
			t.Errorf("%s: entries of an older leader: %+v, %v", when, answer, err)
		}
		if err := g.Campaign(t.Context()); err == nil {
			t.Errorf("%s: it stands", when)
		}
	}
	check("opened")
	if err := joiner.group.Close(); err != nil {
		t.Fatal(err)
	}
	c.open(joiner)
	check("opened again")
	// A prefix that has a configuration with this member alone makes no leader of it either.
	first := &raft.AppendEntriesRequest{
		RPCHeader: c.members[0].group.header(), Term: 7,
		Entries: []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(raft.Configuration{
			Servers: []raft.Server{{ID: "n4", Address: "n4"}},
		})}},
	}
	if _, err := joiner.transport.Inject(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := joiner.group.Campaign(t.Context()); err == nil || joiner.group.State() != raft.Follower {
		t.Errorf("it stands with a part of the log: %v", err)
	}
	if granted, err := c.voteOf(joiner, "n1", 20, 7, 50); err != nil || !granted {
		t.Errorf("a vote for who has all: %v, %v", granted, err)
	}
}

// A member whose log has reached its base has none any longer.
func TestBaseReached(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("x")
	c.equal()
	l := c.leader()
	b, err := l.group.BaseFor(t.Context(), "n4")
	if err != nil {
		t.Fatal(err)
	}
	c.change = func(_ *member, config *Config[reply, string]) { config.Driven, config.Base = true, b }
	joiner := &member{node: "n4", dir: t.TempDir()}
	c.members = append(c.members, joiner)
	c.open(joiner)
	if !joiner.group.Behind() {
		t.Error("an empty member is not behind")
	}
	if err := l.group.AddNonvoter(t.Context(), "n4"); err != nil {
		t.Fatal(err)
	}
	until(t, "it has what the group had", func() bool { return !joiner.group.Behind() })
	if !joiner.group.VotesFor(0, 0) { // raft compares from here on
		t.Error("it has a base still")
	}
	if err := l.group.AddVoter(t.Context(), "n4"); err != nil {
		t.Fatal(err)
	}
	c.equal()
	if err := joiner.group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it leads", joiner.group.Leading)
	c.propose("y")
	c.equal()
}

// A member that runs and has nothing gets its base later, as that of the catalog does.
func TestBegin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(m *member, config *Config[reply, string]) { config.Driven, m.unconfigured = true, true })
	m := c.members[0]
	if err := m.group.Begin(t.Context(), Base{Term: 9, Index: 4}); err != nil {
		t.Fatal(err)
	}
	if _, term := m.group.Leader(); term != 9 || !m.group.Behind() {
		t.Errorf("term %d, behind %v", term, m.group.Behind())
	}
	if term, err := m.storage.GetUint64([]byte(keyTerm)); err != nil || term != 9 {
		t.Errorf("stored is term %d, %v", term, err)
	}
}

// A member that lacks a change lets one be elected that has joined by it, and has a newer log. In the library the
// members' newest configuration would forbid it, and both would be without a leader for ever.
func TestVotesForNewMember(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("x")
	c.equal()
	f := c.members[2]
	term, index, err := f.group.Position()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name                      string
		term, lastTerm, lastIndex uint64
		want                      bool
	}{
		{"a log that is not newer", 11, term, index, false},
		{"an older log", 12, term, index - 1, false},
		{"a newer log", 13, term, index + 1, true},
		{"a log of a newer term", 14, term + 1, 1, true},
	} {
		granted, err := c.voteOf(f, "n9", row.term, row.lastTerm, row.lastIndex)
		if granted != row.want || err != nil {
			t.Errorf("%s: %v, %v", row.name, granted, err)
		}
	}
}

// The member that leaves may be the only one that is left with the configuration without it. It stands then, the others
// elect it, and it steps down when that configuration is committed.
func TestLeavingMemberStands(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("x")
	c.equal()
	l, leaves := c.members[0], c.members[2]
	at, err := l.group.Configuration()
	if err != nil {
		t.Fatal(err)
	}
	// What the leader sends to the one that leaves, before it is lost.
	_, term := l.group.Leader()
	prevTerm, prev, err := leaves.group.Position()
	if err != nil || !at.Committed() {
		t.Fatal(err, at)
	}
	c.disconnect(l)
	without := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}, {ID: "n2", Address: "n2"}}}
	_, err = leaves.transport.Inject(t.Context(), &raft.AppendEntriesRequest{
		RPCHeader: l.group.header(), Term: term, PrevLogEntry: prev, PrevLogTerm: prevTerm,
		Entries: []*raft.Log{{Index: prev + 1, Term: term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(without)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if voters, _ := leaves.group.Members(); slices.Contains(voters, leaves.node) || !leaves.group.Leaving() || c.members[1].group.Leaving() {
		t.Fatalf("voters %q, leaving %v", voters, leaves.group.Leaving())
	}
	c.close(l)
	c.open(l) // it is back, without that entry
	if err := leaves.group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "another member has the configuration", func() bool {
		voters, err := c.members[1].group.Members()
		return err == nil && !slices.Contains(voters, leaves.node)
	})
	until(t, "it has stepped down", func() bool { return leaves.group.State() != raft.Leader })
	if err := leaves.group.Close(); err != nil {
		t.Fatal(err)
	}
	c.members = c.members[:2]
	if err := c.members[1].group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.propose("y")
	c.equal()
}
