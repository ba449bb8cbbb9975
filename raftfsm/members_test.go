package raftfsm

import (
	"errors"
	"slices"
	"testing"

	"github.com/quorate/quorate/id"
)

// A member joins without a vote, catches up and is promoted.
func TestMemberJoins(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.propose("before", "body")
	joiner := &member{node: "n4", dir: t.TempDir()}
	c.members = append(c.members, joiner)
	c.open(joiner)
	// A change may meet a change of the leader; a repeat does no harm.
	change := func(what string, f func(g *testGroupT) error) {
		t.Helper()
		until(t, what, func() bool {
			err := f(c.leader().group)
			var not *NotLeaderError
			if err != nil && !errors.As(err, &not) {
				t.Log(err)
			}
			return err == nil
		})
	}
	has := func(voters, nonvoters []id.NodeID) {
		t.Helper()
		gotVoters, gotNonvoters, err := c.leader().group.Servers()
		if err != nil || !slices.Equal(gotVoters, voters) || !slices.Equal(gotNonvoters, nonvoters) {
			t.Errorf("voters %v, non-voters %v, %v", gotVoters, gotNonvoters, err)
		}
	}
	change("a non-voter", func(g *testGroupT) error { return g.AddNonvoter(t.Context(), "n4") })
	has([]id.NodeID{"n1", "n2", "n3"}, []id.NodeID{"n4"})
	c.equal()
	joiner.readable(t)
	change("a voter", func(g *testGroupT) error { return g.AddVoter(t.Context(), "n4") })
	has([]id.NodeID{"n1", "n2", "n3", "n4"}, nil)
	c.propose("after", "body")
	c.equal()
	// What was decided about another configuration is not done.
	if err := c.leader().group.RemoveServer(t.Context(), "n4", 1); err == nil {
		t.Error("removed by an old configuration")
	}
	if err := c.leader().group.RemoveServer(t.Context(), "n4", 0); !errors.Is(err, errUncommitted) {
		t.Errorf("removed by a configuration that is not committed: %v", err)
	}
	change("demoted", func(g *testGroupT) error {
		at, err := g.Configuration()
		return errors.Join(err, g.DemoteVoter(t.Context(), "n4", at.Index))
	})
	has([]id.NodeID{"n1", "n2", "n3"}, []id.NodeID{"n4"})
	change("removed", func(g *testGroupT) error {
		at, err := g.Configuration()
		return errors.Join(err, g.RemoveServer(t.Context(), "n4", at.Index))
	})
	has([]id.NodeID{"n1", "n2", "n3"}, nil)
	c.propose("without it", "body")
	if err := joiner.group.Close(); err != nil {
		t.Fatal(err)
	}
	c.members = c.members[:3]
	c.equal()
	var not *NotLeaderError
	for _, m := range c.members {
		if m == c.leader() {
			continue
		}
		if err := m.group.AddVoter(t.Context(), "n9"); !errors.As(err, &not) {
			t.Errorf("%s: %v", m.node, err)
		}
	}
	closed := c.follower()
	if err := closed.group.Close(); err != nil {
		t.Fatal(err)
	}
	if err := closed.group.AddVoter(t.Context(), "n4"); !errors.Is(err, ErrStopped) {
		t.Errorf("closed member: %v", err)
	}
	closed.group = nil
}
