package raftfsm

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// parking is a transport whose calls with entries to a peer wait while its node is away, as those of cluster/transport do.
type parking struct {
	*heartbeats

	peer raft.ServerID

	mu   sync.Mutex
	away chan struct{} // closed when the peer comes back; nil: it is there
}

// leave and comeBack say where the peer is.
func (p *parking) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = make(chan struct{})
}

func (p *parking) comeBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.away)
	p.away = nil
}

func (p *parking) gone(to raft.ServerID) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to != p.peer {
		return nil
	}
	return p.away
}

func (p *parking) AppendEntries(to raft.ServerID, at raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if away := p.gone(to); away != nil {
		<-away
	}
	return p.heartbeats.AppendEntries(to, at, req, resp)
}

func (p *parking) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if p.gone(to) != nil {
		return errShut
	}
	return p.heartbeats.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

func (p *parking) AppendEntriesPipeline(to raft.ServerID, at raft.ServerAddress) (raft.AppendPipeline, error) {
	if p.gone(to) != nil {
		return nil, errShut
	}
	inner, err := p.heartbeats.AppendEntriesPipeline(to, at)
	return parkingPipeline{inner, p, to}, err
}

// parkingPipeline ends when its peer goes.
type parkingPipeline struct {
	raft.AppendPipeline

	p  *parking
	to raft.ServerID
}

func (l parkingPipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if l.p.gone(l.to) != nil {
		return nil, raft.ErrPipelineShutdown
	}
	return l.AppendPipeline.AppendEntries(req, resp)
}

// A follower whose node was away gets all that it lacks at once, also if nothing more is appended. Raft alone would
// send 64 entries for each entry that is appended, and no more: hundreds of barriers, or a minute for each 64
// entries.
func TestDrivenFollowerGetsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first *parking
		all := newLogCluster(t, 3, func(c *Config[reply, string]) {
			c.Driven = true
			if c.Node == "n1" {
				inner, ok := c.Transport.(*heartbeats)
				if !ok {
					t.Fatalf("the transport is a %T", c.Transport)
				}
				first = &parking{heartbeats: inner, peer: "n3"}
				c.Transport = first
			}
		})
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		comes(t, "before", l.submit("a"))
		time.Sleep(time.Minute)
		first.leave()
		comes(t, "the first that it lacks", l.submit("b"))
		time.Sleep(time.Second) // a call with that waits for the node
		const entries = 40 * maxAppendEntries
		for range entries {
			comes(t, "what it lacks", l.submit("c"))
		}
		began, before := time.Now(), l.group.Stats().LastIndex
		first.comeBack()
		until(t, "the follower has all", func() bool {
			return all[2].group.Stats().LastIndex == l.group.Stats().LastIndex
		})
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute)
		if n := l.group.Stats().LastIndex - before; n > 2 {
			t.Errorf("%d barriers were needed", n)
		}
		sameLogs(t, l, all[2])
	})
}

// sameLogs compares what two members have stored.
func sameLogs(t *testing.T, a, b *logMember) {
	t.Helper()
	last, err := a.storage.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= last; i++ {
		var x, y raft.Log
		if err := a.storage.GetLog(i, &x); err != nil {
			t.Fatal(err)
		}
		if err := b.storage.GetLog(i, &y); err != nil {
			t.Fatal(err)
		}
		if x.Term != y.Term || x.Type != y.Type || string(x.Data) != string(y.Data) {
			t.Fatalf("entry %d differs", i)
		}
	}
}
