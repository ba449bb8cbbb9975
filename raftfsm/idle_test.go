package raftfsm

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// counted counts the calls by which a leader notifies its followers.
type counted struct {
	*heartbeats
	calls *atomic.Int64
}

func (c counted) AppendEntries(n raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	c.calls.Add(1)
	return c.heartbeats.AppendEntries(n, to, a, r)
}

func (c counted) AppendEntriesPipeline(n raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := c.heartbeats.AppendEntriesPipeline(n, to)
	return countedPipeline{p, c.calls}, err
}

type countedPipeline struct {
	raft.AppendPipeline
	calls *atomic.Int64
}

func (c countedPipeline) AppendEntries(a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	c.calls.Add(1)
	return c.AppendPipeline.AppendEntries(a, r)
}

// A driven group that nobody uses says nothing for an hour, not even heartbeats, and works
// at once after that.
func TestDrivenGroupIsSilentForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		all := newLogCluster(t, 3, func(c *Config[reply, string]) {
			c.Driven = true
			b, ok := c.Transport.(*heartbeats)
			if !ok {
				t.Fatalf("the transport is a %T", c.Transport)
			}
			c.Transport = counted{b, &calls}
		})
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		comes(t, "before", l.submit("a"))
		time.Sleep(time.Minute)
		before := calls.Load()
		if before == 0 {
			t.Fatal("nothing was counted")
		}
		time.Sleep(time.Hour)
		if n := calls.Load() - before; n != 0 {
			t.Errorf("%d calls in an hour at rest", n)
		}
		if l != all[0] || !l.group.Leading() {
			t.Error("the leader was replaced")
		}
		comes(t, "after", l.submit("b"))
	})
}

// Who only looks at a group does not use it; a command does.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, func(c *Config[reply, string]) { c.Driven = true })
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		comes(t, "before", l.submit("a"))
		time.Sleep(time.Minute)
		for range 10 {
			if err := l.group.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		for _, m := range all {
			if idle := m.group.Idle(); idle < 10*time.Minute {
				t.Errorf("a member whose leader was looked at each minute has been idle for %v", idle)
			}
		}
		comes(t, "after", l.submit("b"))
		time.Sleep(time.Second)
		for _, m := range all {
			if idle := m.group.Idle(); idle > time.Minute {
				t.Errorf("a member that has applied a command has been idle for %v", idle)
			}
		}
	})
}
