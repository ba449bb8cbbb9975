package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

const (
	// handOverTick is the wait between two looks at whether the target is caught up.
	handOverTick = 5 * time.Millisecond
	// handOverCatchUp bounds the wait for the target to catch up; no commands are
	// proposed meanwhile.
	handOverCatchUp = 2 * time.Second
	// handOverElection bounds the wait for the target's election.
	handOverElection = time.Second
)

var errTransferring = errors.New("another transfer is under way")

// handOver is TransferLeadership of a driven group. Raft's own would refuse entries for
// an election timeout if the target dies, which here is ten minutes.
func (g *Group[R, E]) handOver(ctx context.Context, r *raft.Raft, to id.NodeID) error {
	fault := func(err error) error {
		return fmt.Errorf("raftfsm: group %s: transfer leadership to %q: %w", g.c.Group, to, err)
	}
	p := &g.proposer
	p.mu.Lock()
	busy := p.paused > 0
	if !busy {
		p.paused++
	}
	p.mu.Unlock()
	if busy {
		return fault(errTransferring)
	}
	defer func() {
		p.mu.Lock()
		p.paused--
		p.mu.Unlock()
		p.signal()
	}()
	term := leaderTerm(r)
	target, err := g.caughtUp(ctx, r, term, to)
	if err != nil {
		return fault(err)
	}
	err = g.out.TimeoutNow(raft.ServerID(target), raft.ServerAddress(target),
		&raft.TimeoutNowRequest{RPCHeader: g.header()}, &raft.TimeoutNowResponse{})
	if err != nil {
		return fault(err)
	}
	late := time.NewTimer(handOverElection)
	defer late.Stop()
	for {
		changed := g.Changed()
		if leaderTerm(r) != term {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return fault(fmt.Errorf("node %q did not take over within %v", target, handOverElection))
		case <-ctx.Done():
			return fault(ctx.Err())
		case <-g.stop:
			return g.stopped()
		}
	}
}

// caughtUp waits until everything proposed is applied and the target, or any voter if it
// is "", has the whole log.
func (g *Group[R, E]) caughtUp(ctx context.Context, r *raft.Raft, term uint64, to id.NodeID) (id.NodeID, error) {
	ctx, cancel := context.WithTimeout(ctx, handOverCatchUp)
	defer cancel()
	tick := time.NewTicker(handOverTick)
	defer tick.Stop()
	for {
		if leaderTerm(r) != term || term == 0 {
			return "", g.notLeader()
		}
		if g.proposer.idle() {
			if target, ok := g.matching(r, to); ok {
				return target, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("no voter that was asked has caught up: %w", ctx.Err())
		case <-g.stop:
			return "", g.stopped()
		}
	}
}

// matching returns the first voter that answers that its log ends like this member's.
func (g *Group[R, E]) matching(r *raft.Raft, to id.NodeID) (id.NodeID, bool) {
	req, ok := g.probe(r)
	voters, err := g.Members()
	if !ok || err != nil {
		return "", false
	}
	answers := make(chan id.NodeID, len(voters))
	asked := 0
	for _, n := range voters {
		if n == g.c.Node || to != "" && n != to {
			continue
		}
		asked++
		go func() {
			if g.notifyOne(n, *req) != pushMatches {
				n = ""
			}
			answers <- n
		}()
	}
	for range asked {
		if n := <-answers; n != "" {
			return n, r.LastIndex() == req.PrevLogEntry
		}
	}
	return "", false
}

// idle reports that no entry is on its way.
func (p *proposer[R]) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inFlight) == 0
}
