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
	// handOverTick is the wait between checks whether the target is caught up.
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
// was not passed over. Nothing is proposed meanwhile, so a voter that does not answer must not keep the others from being
// asked again.
func (g *Group[R, E]) caughtUp(ctx context.Context, r *raft.Raft, term uint64, to id.NodeID, passed []id.NodeID) (id.NodeID, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(handOverTick)
	defer tick.Stop()
	asked := probes{open: map[id.NodeID]bool{}, answers: make(chan probed)}
	for {
		if leaderTerm(r) != term || term == 0 {
			return "", g.notLeader()
		}
		takers, err := g.takers(to, passed)
		if err != nil {
			return "", err
		}
		if g.proposer.idle() {
			g.askEnds(ctx, r, takers, &asked)
		}
		if target, err := g.matching(ctx, r, &asked, tick.C); target != "" || err != nil {
			return target, err
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

// probes are the questions to voters whether their logs end like this member's. Each voter has one at a time.
type probes struct {
	open    map[id.NodeID]bool // not answered yet
	answers chan probed
}

// probed is the answer to one of them.
type probed struct {
	node    id.NodeID
	end     uint64 // of this member's log, when it was asked
	matches bool
}

// askEnds asks the takers that have answered what they were asked before. Whoever asks reads the answers until ctx ends.
func (g *Group[R, E]) askEnds(ctx context.Context, r *raft.Raft, takers []id.NodeID, asked *probes) {
	req, ok := g.probe(r)
	if !ok {
		return
	}
	for _, n := range takers {
		if asked.open[n] {
			continue
		}
		asked.open[n] = true
		g.spawn(func() {
			a := probed{node: n, end: req.PrevLogEntry, matches: g.notifyOne(n, *req) == pushMatches}
			select {
			case asked.answers <- a:
			case <-ctx.Done():
			}
		})
	}
}

// matching returns the first voter that answers that its log ends like this member's; "" if none does before the tick.
func (g *Group[R, E]) matching(ctx context.Context, r *raft.Raft, asked *probes, tick <-chan time.Time) (id.NodeID, error) {
	for {
		select {
		case a := <-asked.answers:
			delete(asked.open, a.node)
			if a.matches && a.end == r.LastIndex() && g.proposer.idle() {
				return a.node, nil
			}
		case <-tick:
			return "", nil
		case <-ctx.Done():
			return "", fmt.Errorf("no voter that was asked has caught up: %w", ctx.Err())
		case <-g.stop:
			return "", g.stopped()
		}
	}
}

// idle reports that no entry is on its way.
func (p *proposer[R]) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inFlight) == 0
}
