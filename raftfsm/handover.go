package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

var (
	errTransferring = errors.New("another transfer is under way")
	// errNoTaker: whoever could take over is no voter any more, or has refused.
	errNoTaker = errors.New("no other voter is left to ask")
)

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
	target, err := g.offer(ctx, r, term, to)
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

// offer has the target stand for election once it has caught up, and returns it. If to is "" any voter will do, and
// one whose node refuses, as one that drains does, is passed over.
func (g *Group[R, E]) offer(ctx context.Context, r *raft.Raft, term uint64, to id.NodeID) (id.NodeID, error) {
	ctx, cancel := context.WithTimeout(ctx, handOverCatchUp)
	defer cancel()
	var passed []id.NodeID
	var refusals []error
	for {
		target, err := g.caughtUp(ctx, r, term, to, passed)
		if err == nil {
			err = g.requestStand(ctx, target)
		}
		if err == nil {
			return target, nil
		}
		refusals = append(refusals, err)
		if to != "" || !isRefusal(err) {
			return "", errors.Join(refusals...)
		}
		passed = append(passed, target)
	}
}

// requestStand requests that a member stands for election. A member that does not answer is waited for until ctx ends: the
// transport would wait far longer, and nothing is proposed meanwhile.
func (g *Group[R, E]) requestStand(ctx context.Context, target id.NodeID) error {
	answered := make(chan error, 1)
	g.spawn(func() {
		answered <- g.out.TimeoutNow(raft.ServerID(target), raft.ServerAddress(target),
			&raft.TimeoutNowRequest{RPCHeader: g.header()}, &raft.TimeoutNowResponse{})
	})
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("node %q does not answer the request to stand for election: %w", target, ctx.Err())
	case <-g.stop:
		return g.stopped()
	}
}

// caughtUp waits until everything proposed is applied and the target has the whole log, or if to is "" any voter that
// was not passed over.
func (g *Group[R, E]) caughtUp(ctx context.Context, r *raft.Raft, term uint64, to id.NodeID, passed []id.NodeID) (id.NodeID, error) {
	tick := time.NewTicker(handOverTick)
	defer tick.Stop()
	for {
		if leaderTerm(r) != term || term == 0 {
			return "", g.notLeader()
		}
		takers, err := g.takers(to, passed)
		if err != nil {
			return "", err
		}
		if g.proposer.idle() {
			if target, ok := g.matching(ctx, r, takers); ok {
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

// takers returns the voters that may take over, at least one.
func (g *Group[R, E]) takers(to id.NodeID, passed []id.NodeID) ([]id.NodeID, error) {
	voters, err := g.Members()
	if err != nil {
		return nil, err
	}
	takers := slices.DeleteFunc(slices.Clone(voters), func(n id.NodeID) bool {
		return n == g.c.Node || to != "" && n != to || slices.Contains(passed, n)
	})
	if len(takers) == 0 {
		return nil, errNoTaker
	}
	return takers, nil
}

// matching returns the first of them that answers that its log ends like this member's. It waits for answers until ctx ends.
func (g *Group[R, E]) matching(ctx context.Context, r *raft.Raft, takers []id.NodeID) (id.NodeID, bool) {
	req, ok := g.probe(r)
	if !ok {
		return "", false
	}
	answers := make(chan id.NodeID, len(takers))
	for _, n := range takers {
		g.spawn(func() {
			if g.notifyOne(n, *req) != pushMatches {
				n = ""
			}
			answers <- n
		})
	}
	for range takers {
		select {
		case n := <-answers:
			if n != "" {
				return n, r.LastIndex() == req.PrevLogEntry
			}
		case <-ctx.Done():
			return "", false
		case <-g.stop:
			return "", false
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
