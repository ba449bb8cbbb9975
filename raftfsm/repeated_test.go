package raftfsm

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// lostAnswer is a transport that loses the answer to the first entries behind a snapshot.
type lostAnswer struct {
	*heartbeats

	installed atomic.Pointer[raft.ServerID] // who has got a snapshot
	lose      *sync.Once
	lost      chan struct{} // closed when it was lost
	snapshots *atomic.Int32
}

func (l *lostAnswer) InstallSnapshot(to raft.ServerID, at raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	err := l.heartbeats.InstallSnapshot(to, at, args, resp, data)
	if err == nil && resp.Success {
		l.snapshots.Add(1)
		l.installed.Store(&to)
	}
	return err
}

func (l *lostAnswer) AppendEntries(to raft.ServerID, at raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := l.heartbeats.AppendEntries(to, at, req, resp)
	if n := l.installed.Load(); err == nil && resp.Success && n != nil && *n == to && len(req.Entries) > 0 {
		l.lose.Do(func() {
			close(l.lost)
			err = errCut
		})
	}
	return err
}

// A member that has stored the first entries behind a snapshot, but whose answer was lost, gets the others, and no other
// snapshot.
func TestLostAnswerBehindSnapshot(t *testing.T) {
	t.Parallel()
	var lose sync.Once
	var snapshots atomic.Int32
	lost := make(chan struct{})
	c := newCluster(t, 3, func(m *member, config *Config[reply, string]) {
		config.TrailingEntries = 10
		config.Transport = &lostAnswer{heartbeats: m.transport, lose: &lose, lost: lost, snapshots: &snapshots}
	})
	c.propose("first", "body")
	c.equal()
	away := c.follower()
	c.close(away)
	more := func(what string, n int) {
		t.Helper()
		for i := range n {
			c.propose(fmt.Sprint(what, i), fmt.Sprint("body ", i))
		}
	}
	more("before ", 100)
	for _, m := range c.members { // whoever leads then
		if m == away {
			continue
		}
		if err := m.group.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	more("behind ", 3*maxAppendEntries)
	c.open(away)
	receive(t, "the answer to be lost", lost)
	more("later ", 10)
	c.equal()
	if n := snapshots.Load(); n != 1 {
		t.Errorf("%d snapshots were sent", n)
	}
}

// What a member has applied is left out, and it commits no more than the request vouches for.
func TestUnapplied(t *testing.T) {
	t.Parallel()
	entries := func(first, last uint64) (all []*raft.Log) {
		for i := first; i <= last; i++ {
			all = append(all, &raft.Log{Index: i, Term: 3})
		}
		return all
	}
	for name, c := range map[string]struct {
		prev, last, committed, applied uint64
		first                          uint64 // of what is left; 0: nothing
		commits                        uint64
	}{
		"nothing but what the snapshot stands for": {prev: 10, last: 14, committed: 14, applied: 10, first: 11, commits: 14},
		"some is applied":                          {prev: 10, last: 14, committed: 13, applied: 12, first: 13, commits: 13},
		"all is applied":                           {prev: 10, last: 14, committed: 90, applied: 14, commits: 14},
		"more is applied":                          {prev: 10, last: 14, committed: 90, applied: 20, commits: 20},
		"more is committed than is sent":           {prev: 10, last: 14, committed: 90, applied: 11, first: 12, commits: 14},
		"no entries":                               {prev: 10, last: 10, committed: 90, applied: 12, commits: 12},
		"nothing is known to be committed":         {prev: 10, last: 12, committed: 0, applied: 11, first: 12, commits: 0},
	} {
		all := entries(c.prev+1, c.last)
		a := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: c.prev, PrevLogTerm: 2, Entries: all, LeaderCommitIndex: c.committed}
		rest := unapplied(a, c.applied)
		var want []*raft.Log
		if c.first > 0 {
			want = all[c.first-c.prev-1:]
		}
		if !slices.Equal(rest.Entries, want) || rest.LeaderCommitIndex != c.commits || rest.PrevLogEntry != 0 || rest.PrevLogTerm != 0 || rest.Term != 3 {
			t.Errorf("%s: %+v", name, rest)
		}
		if a.PrevLogEntry != c.prev || len(a.Entries) != len(all) || a.LeaderCommitIndex != c.committed {
			t.Errorf("%s: the request itself has changed: %+v", name, a)
		}
	}
}
