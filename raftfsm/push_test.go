package raftfsm

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// barred is a transport on which calls with entries fail while it is set, and others pass: its peers are there and fall
// behind.
type barred struct {
	*heartbeats

	is *atomic.Bool
}

func (b barred) AppendEntries(to raft.ServerID, at raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if b.is.Load() && len(req.Entries) > 0 {
		return errShut
	}
	return b.heartbeats.AppendEntries(to, at, req, resp)
}

func (b barred) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (b barred) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return b.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

// A leader whose followers are there and store nothing does not fill its log with barriers, and brings them up when they
// store again: by itself after a while, and at once when something happens.
func TestDrivenBarriersAreFew(t *testing.T) {
	t.Parallel()
	for _, pushed := range []bool{false, true} {
		var is atomic.Bool
		synctest.Test(t, func(t *testing.T) {
			all := newLogCluster(t, 3, func(c *Config[reply, string]) {
				c.Driven = true
				inner, ok := c.Transport.(*heartbeats)
				if !ok {
					t.Fatalf("the transport is a %T", c.Transport)
				}
				c.Transport = barred{inner, &is}
			})
			if err := all[0].group.Campaign(t.Context()); err != nil {
				t.Fatal(err)
			}
			l := leaderOf(t, all, nil)
			comes(t, "before", l.submit("a"))
			time.Sleep(time.Minute)
			is.Store(true)
			answered := l.submit("b")
			const minutes = 20
			time.Sleep(minutes * time.Minute)
			const most = maxNudges + doublings + minutes
			if s := l.group.Stats(); s.LastIndex-s.CommitIndex > 1+most {
				t.Errorf("%d entries wait for a commit, want one and at most %d barriers", s.LastIndex-s.CommitIndex, most)
			}
			is.Store(false)
			began, longest := time.Now(), nudgeRest+raftBackoff
			if pushed {
				l.group.Push()
				longest = time.Second + raftBackoff
			}
			comes(t, "it", answered)
			if took := time.Since(began); took > longest {
				t.Errorf("pushed %v: committed after %v, want %v", pushed, took, longest)
			}
		})
	}
}

// raftBackoff is the longest that raft waits after failed calls before it makes the next one.
const raftBackoff = 12 * time.Second
