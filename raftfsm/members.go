package raftfsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Servers returns the voters and the non-voters of the newest configuration.
func (g *Group[R, E]) Servers() (voters, nonvoters []id.NodeID, err error) {
	c, err := g.Configuration()
	return c.Voters, c.Nonvoters, err
}

// AddVoter makes a node a voter, or promotes a non-voter. Call it on the leader; it returns when
// the configuration is committed. Errors are *NotLeaderError, ErrStopped, or an unknown outcome;
// repeating it is harmless.
func (g *Group[R, E]) AddVoter(ctx context.Context, n id.NodeID) error {
	return g.change(ctx, "add voter", n, func(r *raft.Raft) raft.Future {
		return r.AddVoter(raft.ServerID(n), raft.ServerAddress(n), 0, 0)
	})
}

// AddNonvoter lets a node receive the log without a vote; a voter stays a voter. Otherwise it is
// like AddVoter.
func (g *Group[R, E]) AddNonvoter(ctx context.Context, n id.NodeID) error {
	return g.change(ctx, "add non-voter", n, func(r *raft.Raft) raft.Future {
		return r.AddNonvoter(raft.ServerID(n), raft.ServerAddress(n), 0, 0)
	})
}

// Configuration lists the members of a group.
type Configuration struct {
	Index             uint64 // of the configuration's log entry
	Voters, Nonvoters []id.NodeID
}

// Configuration returns the newest configuration, committed or not.
func (g *Group[R, E]) Configuration() (Configuration, error) {
	future := g.raft.Load().GetConfiguration()
	if err := future.Error(); err != nil {
		return Configuration{}, fmt.Errorf("raftfsm: group %s: configuration: %w", g.c.Group, err)
	}
	c := Configuration{Index: future.Index()}
	for _, s := range future.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			c.Voters = append(c.Voters, id.NodeID(s.ID))
		} else {
			c.Nonvoters = append(c.Nonvoters, id.NodeID(s.ID))
		}
	}
	return c, nil
}

// RemoveServer removes a node, voter or not. It fails if the newest configuration is not that of
// index at, so that a decision about one configuration is not applied to another. Otherwise it is
// like AddVoter. The removed member continues without a vote until it is closed.
func (g *Group[R, E]) RemoveServer(ctx context.Context, n id.NodeID, at uint64) error {
	return g.change(ctx, "remove", n, func(r *raft.Raft) raft.Future {
		return r.RemoveServer(raft.ServerID(n), at, 0)
	})
}

// DemoteVoter makes a voter a non-voter; otherwise it is like RemoveServer.
func (g *Group[R, E]) DemoteVoter(ctx context.Context, n id.NodeID, at uint64) error {
	return g.change(ctx, "demote", n, func(r *raft.Raft) raft.Future {
		return r.DemoteVoter(raft.ServerID(n), at, 0)
	})
}

// change waits for a change of the configuration, or for the end of ctx. Raft takes a
// change only when the one before is committed.
func (g *Group[R, E]) change(ctx context.Context, what string, n id.NodeID, request func(*raft.Raft) raft.Future) error {
	err := g.await(ctx, request)
	switch {
	case err == nil, errors.Is(err, ErrStopped):
		return err
	case errors.Is(err, raft.ErrNotLeader):
		return g.notLeader()
	}
	return fmt.Errorf("raftfsm: group %s: %s %q: %w", g.c.Group, what, n, err)
}

// await returns raft's answer to a request, ErrStopped once the group stops, or the error of ctx. Raft may
// leave a request without an answer when it is shut down, or when the guard ends its goroutine because
// the disk has failed. So nothing waits for the goroutine that waits for raft.
func (g *Group[R, E]) await(ctx context.Context, request func(*raft.Raft) raft.Future) error {
	result := make(chan error, 1)
	go func() { result <- request(g.raft.Load()).Error() }()
	select {
	case err := <-result:
		if errors.Is(err, raft.ErrRaftShutdown) {
			return g.stopped()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-g.stop:
		return g.stopped()
	}
}
