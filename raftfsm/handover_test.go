package raftfsm

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// callTime is how long cluster/transport waits for the answer to a call.
const callTime = 30 * time.Second

// speechless is a transport to a peer that is connected, and no longer answers some calls.
type speechless struct {
	*heartbeats
	peer             raft.ServerID
	probes, standing atomic.Bool // calls of these kinds get no answer
}

func (m *speechless) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if to == m.peer && m.probes.Load() {
		return unanswered()
	}
	return m.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

func (m *speechless) TimeoutNow(to raft.ServerID, at raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if to == m.peer && m.standing.Load() {
		return unanswered()
	}
	return m.heartbeats.TimeoutNow(to, at, req, resp)
}

func unanswered() error {
	time.Sleep(callTime)
	return errors.New("no answer")
}

// A member that does not answer holds a transfer up for no longer than the transfer may take, and than its caller waits:
// nothing is proposed meanwhile, and a node that stops waits for it.
func TestDrivenTransferToSpeechless(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*speechless){
		"its log":              func(m *speechless) { m.probes.Store(true) },
		"the request to stand": func(m *speechless) { m.standing.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var first *speechless
				all := newLogCluster(t, 3, func(c *Config[reply, string]) {
					c.Driven = true
					if inner, ok := c.Transport.(*heartbeats); ok && c.Node == "n1" {
						first = &speechless{heartbeats: inner, peer: "n2"}
						c.Transport = first
					}
				})
				if err := all[0].group.Campaign(t.Context()); err != nil {
					t.Fatal(err)
				}
				l := leaderOf(t, all, nil)
				comes(t, "before", l.submit("before"))
				set(first)
				for _, waits := range []time.Duration{time.Hour, time.Second} {
					ctx, cancel := context.WithTimeout(t.Context(), waits)
					began := time.Now()
					err := l.group.TransferLeadership(ctx, "n2")
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the transfer ended with %v", err)
					}
					if took, most := time.Since(began), min(waits, handOverCatchUp+handOverElection); took > most {
						t.Errorf("it took %v, %v at most were wanted", took, most)
					}
					comes(t, "after", l.submit("after"))
				}
			})
		})
	}
}

// lagging is a transport to a peer that is speechless, and to others that lack the end of the log for a while.
type lagging struct {
	*speechless
	until atomic.Int64 // Unix time in nanoseconds
}

func (m *lagging) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if to != m.peer && time.Now().UnixNano() < m.until.Load() {
		return nil // and no success
	}
	return m.speechless.AppendEntriesNow(to, req, resp)
}

// Where nobody is named, leadership goes to a member as soon as it has caught up, although another one does not answer.
func TestDrivenTransferPastSpeechless(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lags = 50 * time.Millisecond
		var first *lagging
		all := newLogCluster(t, 3, func(c *Config[reply, string]) {
			c.Driven = true
			if inner, ok := c.Transport.(*heartbeats); ok && c.Node == "n1" {
				first = &lagging{speechless: &speechless{heartbeats: inner, peer: "n2"}}
				c.Transport = first
			}
		})
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		comes(t, "before", l.submit("before"))
		first.probes.Store(true)
		first.until.Store(time.Now().Add(lags).UnixNano())
		began := time.Now()
		err := l.group.TransferLeadership(t.Context(), "")
		if took := time.Since(began); err != nil || took < lags || took > lags+handOverElection {
			t.Errorf("after %v: %v; want success after %v and an election", took, err, lags)
		}
		if n := leaderOf(t, all, all[0]).node; n != "n3" { // n1 may notice a moment later
			t.Errorf("%s leads", n)
		}
	})
}
