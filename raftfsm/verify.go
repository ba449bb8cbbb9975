package raftfsm

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"
)

// Verify is like Barrier, but writes nothing while no entry is in flight: a majority of the voters
// confirms that it knows no newer leader. It does not use raft's own check, which in a group
// without timers may wait long behind a failed call.
func (g *Group[R, E]) Verify(ctx context.Context) error {
	r := g.raft.Load()
	term := leaderTerm(r)
	switch {
	case g.Failed() != nil:
		return g.stopped()
	case term == 0:
		return g.notLeader()
	case g.leading.term.Load() != term || r.CommitIndex() > g.applied.Load():
		// What earlier leaders have committed may not be applied yet; a barrier is behind it.
		return g.Barrier(ctx)
	}
	return g.askVoters(ctx, raft.AppendEntriesRequest{
		RPCHeader: g.header(), Term: term, Leader: []byte(g.c.Node), //nolint:staticcheck // older members read it
	})
}

// askVoters returns nil when a majority has taken a call of a leader.
func (g *Group[R, E]) askVoters(ctx context.Context, req raft.AppendEntriesRequest) error {
	voters, err := g.Members()
	if err != nil {
		return err
	}
	answers := make(chan pushOutcome, len(voters))
	needed, waiting := len(voters)/2+1, 0
	for _, n := range voters {
		if n == g.c.Node {
			needed--
			continue
		}
		waiting++
		g.spawn(func() { answers <- g.notifyOne(n, req) })
	}
	var silent int
	for ; needed > 0; waiting-- {
		if waiting < needed {
			return fmt.Errorf("raftfsm: group %s: only a minority follows node %q, %d of %d voters do not: %w",
				g.c.Group, g.c.Node, silent, len(voters), g.notLeader())
		}
		select {
		case t := <-answers:
			if t == pushMatches {
				needed--
			} else {
				silent++
			}
		case <-ctx.Done():
			return fmt.Errorf("raftfsm: group %s: asking the voters: %w", g.c.Group, ctx.Err())
		case <-g.stop:
			return g.stopped()
		}
	}
	return nil
}
