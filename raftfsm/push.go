package raftfsm

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

const (
	// pushDelay is how long after the last entry of a burst followers are told of its
	// commit. Raft's own commit timer would do it for every group, busy or not.
	pushDelay = 30 * time.Millisecond
	// pushMax is the longest wait between attempts to bring a follower up.
	pushMax = time.Second
	// nudgeAfter is the number of rounds without progress after which raft is given a
	// barrier to replicate: after a failed call it waits for its commit timer otherwise.
	nudgeAfter = 3
	// nudgeTimeout bounds the wait for a place in raft's inbox.
	nudgeTimeout = time.Second
	// stepDownTimeout bounds the wait for raft to take a newer term.
	stepDownTimeout = 5 * time.Second
)

// pusher lets a leader of a driven group tell its followers, after a burst of entries,
// what is committed and who leads, and goes on until all that can be reached are up to
// date. There is at most one round at a time, and none at rest.
type pusher struct {
	moved atomic.Int64 // when something was applied, nanoseconds since the guard's base

	mu    sync.Mutex // guards what follows
	armed bool       // a round is due or runs
	again bool       // something happened since the round began

	// The rest belongs to the round.
	last, commit uint64 // as the round before found them
	wait         time.Duration
	stuck        int // rounds without progress
}

// moved notes that entries were applied.
func (g *Group[R, E]) moved() {
	if g.c.Driven {
		g.pusher.moved.Store(int64(time.Since(g.store.base)))
		g.pushSoon()
	}
}

// Push lets a leader tell its followers who leads and what is committed, soon. A member
// that does not lead, or is not driven, does nothing.
func (g *Group[R, E]) Push() { g.pushSoon() }

func (g *Group[R, E]) pushSoon() {
	if !g.c.Driven || g.isStopping() || leaderTerm(g.raft.Load()) == 0 {
		return
	}
	p := &g.pusher
	p.mu.Lock()
	start := !p.armed
	p.armed, p.again = true, true
	p.mu.Unlock()
	if start {
		g.pushIn(pushDelay)
	}
}

func (g *Group[R, E]) pushIn(d time.Duration) {
	time.AfterFunc(d, func() { g.spawn(g.pushRound) })
}

func (g *Group[R, E]) pushRound() {
	wait := g.push()
	p := &g.pusher
	p.mu.Lock()
	if wait == 0 && p.again {
		wait = pushDelay
	}
	p.armed = wait > 0
	p.mu.Unlock()
	if wait > 0 {
		g.pushIn(wait)
	}
}

// push returns the time to the next round, 0 if none is needed.
func (g *Group[R, E]) push() time.Duration {
	p, r := &g.pusher, g.raft.Load()
	p.mu.Lock()
	asked := p.again
	p.again = false
	p.mu.Unlock()
	if leaderTerm(r) == 0 {
		p.stuck, p.wait = 0, 0
		return 0
	}
	if asked {
		p.wait = pushDelay
	}
	if last, commit := r.LastIndex(), r.CommitIndex(); last != p.last || commit != p.commit {
		p.last, p.commit, p.stuck, p.wait = last, commit, 0, pushDelay
		return pushDelay // the burst goes on
	}
	done, reached := g.tell(r)
	switch {
	case done && !g.proposer.underway():
		p.stuck, p.wait = 0, 0
		return 0
	case done: // an entry waits for the disk: raft's call with it may fail yet
		p.stuck = -1
	}
	if p.stuck++; p.stuck >= nudgeAfter && reached && g.out.snapshots.Load() == 0 {
		p.stuck = 0
		r.Barrier(nudgeTimeout)
	}
	p.wait = min(2*max(p.wait, pushDelay), pushMax)
	return p.wait
}

// tell sends every follower an AppendEntries without entries behind the end of the log.
// done: those that could be reached have the whole log, and it is committed.
func (g *Group[R, E]) tell(r *raft.Raft) (done, reached bool) {
	req, ok := g.probe(r)
	if !ok {
		return false, true
	}
	voters, others, err := g.Servers()
	if err != nil {
		return true, false // raft is shut down
	}
	type answer struct{ reached, matches bool }
	answers := make(chan answer, len(voters)+len(others))
	asked := 0
	for _, n := range append(voters, others...) {
		if n == g.c.Node {
			continue
		}
		asked++
		go func() {
			reached, matches := g.tellOne(n, *req)
			answers <- answer{reached, matches}
		}()
	}
	done = req.LeaderCommitIndex == req.PrevLogEntry
	for range asked {
		a := <-answers
		reached = reached || a.reached
		done = done && (a.matches || !a.reached)
	}
	return done, reached
}

// probe returns the call, false if this member does not lead or its log does not tell.
func (g *Group[R, E]) probe(r *raft.Raft) (*raft.AppendEntriesRequest, bool) {
	term := leaderTerm(r)
	commit := r.CommitIndex()
	prevTerm, prev, err := g.Position()
	if err != nil || term == 0 || leaderTerm(r) != term {
		return nil, false
	}
	return &raft.AppendEntriesRequest{
		RPCHeader: g.header(), Term: term, Leader: []byte(g.c.Node), //nolint:staticcheck // older members read it
		PrevLogEntry: prev, PrevLogTerm: prevTerm,
		// Never above prev: what a follower has behind it may be of another leader.
		LeaderCommitIndex: min(commit, prev),
	}, true
}

// tellOne tells one follower. A newer term there ends this leadership.
func (g *Group[R, E]) tellOne(n id.NodeID, req raft.AppendEntriesRequest) (reached, matches bool) {
	var resp raft.AppendEntriesResponse
	if err := g.out.now(raft.ServerID(n), &req, &resp); err != nil {
		return false, false
	}
	if resp.Term > req.Term && leaderTerm(g.raft.Load()) == req.Term {
		ctx, cancel := context.WithTimeout(context.Background(), stepDownTimeout)
		defer cancel()
		if err := g.StepDown(ctx, resp.Term); err != nil {
			g.log.Warn("taking a newer term", "term", resp.Term, "error", err)
		}
	}
	return true, resp.Success
}
