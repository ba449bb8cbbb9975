package raftfsm

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// drains is a transport whose peers refuse leadership while they drain, all but one. Once is is set that one
// answers nothing before another has refused.
type drains struct {
	*heartbeats
	is      *atomic.Bool
	one     raft.ServerID
	refused chan struct{} // has room for a refusal of each peer
}

func (d drains) TimeoutNow(to raft.ServerID, at raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if d.is.Load() && to != d.one {
		d.refused <- struct{}{}
		return refusal{"node " + string(to) + " takes over no leadership"}
	}
	return d.heartbeats.TimeoutNow(to, at, req, resp)
}

func (d drains) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if d.is.Load() && to == d.one {
		d.refused <- <-d.refused // it stays, for whoever asks again
	}
	return d.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

// Where nobody is named leadership goes past a member whose node drains, although that is the first to answer. If all
// drain it stays, with what each said.
func TestDrivenTransferPastDrained(t *testing.T) {
	t.Parallel()
	for _, stays := range []raft.ServerID{"n3", ""} {
		var is atomic.Bool
		refused := make(chan struct{}, 2)
		c := newDriven(t, func(m *member, config *Config[reply, string]) {
			config.Transport = drains{m.transport, &is, stays, refused}
		})
		c.propose("before")
		c.equal()
		old := c.members[0]
		is.Store(true)
		err := old.group.TransferLeadership(t.Context(), "")
		is.Store(false)
		if stays == "" {
			for _, n := range []string{"n2", "n3"} {
				if err == nil || !strings.Contains(err.Error(), "node "+n+" takes over no leadership") {
					t.Errorf("all drain: %v, which does not have the refusal of %s", err, n)
				}
			}
			if errors.Is(err, context.DeadlineExceeded) || c.leader() != old {
				t.Errorf("all drain: %v; %s leads", err, c.leader().node)
			}
		} else {
			if err != nil {
				t.Fatal(err)
			}
			until(t, "the one that stays leads", func() bool { return c.leader().node == id.NodeID(stays) })
		}
		c.propose("after")
	}
}
