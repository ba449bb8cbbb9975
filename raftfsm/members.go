package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// errUncommitted refuses a change for a configuration that is not known to be committed.
var errUncommitted = errors.New("the group's newest configuration is not committed: try again")

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
	// Index of the configuration's log entry if it is known to be committed, else 0. No later leader is without a
	// committed configuration. One that is not may be taken back: nothing that cannot be undone, such as deleting what a
	// removed member has stored, may follow from it.
	Index             uint64
	Voters, Nonvoters []id.NodeID
}

// Committed reports whether the configuration is known to be committed.
func (c *Configuration) Committed() bool { return c.Index > 0 }

// configured is the newest configuration that this member knows to be committed. Raft reports to nobody the index of its
// newest configuration, but hands on the entries of committed ones.
type configured struct {
	index   uint64
	servers []raft.Server
}

// Configuration returns the newest configuration, committed or not.
func (g *Group[R, E]) Configuration() (Configuration, error) {
	committed := g.configured.Load() // first: if the newest one has the same servers after that, these are committed
	future := g.raft.Load().GetConfiguration()
	if err := future.Error(); err != nil {
		return Configuration{}, fmt.Errorf("raftfsm: group %s: configuration: %w", g.c.Group, err)
	}
	var c Configuration
	servers := future.Configuration().Servers
	if committed != nil && slices.Equal(servers, committed.servers) {
		c.Index = committed.index
	}
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			c.Voters = append(c.Voters, id.NodeID(s.ID))
		} else {
			c.Nonvoters = append(c.Nonvoters, id.NodeID(s.ID))
		}
	}
	return c, nil
}

// RemoveServer removes a node, voter or not. It fails if the newest configuration is not the committed one of
// index at, so that a decision about one configuration is not applied to another. Otherwise it is
// like AddVoter. The removed member continues without a vote until it is closed.
func (g *Group[R, E]) RemoveServer(ctx context.Context, n id.NodeID, at uint64) error {
	return g.changeOf(ctx, at, "remove", n, func(r *raft.Raft) raft.Future {
		return r.RemoveServer(raft.ServerID(n), at, 0)
	})
}

// DemoteVoter makes a voter a non-voter; otherwise it is like RemoveServer.
func (g *Group[R, E]) DemoteVoter(ctx context.Context, n id.NodeID, at uint64) error {
	return g.changeOf(ctx, at, "demote", n, func(r *raft.Raft) raft.Future {
		return r.DemoteVoter(raft.ServerID(n), at, 0)
	})
}

// changeOf is change for a decision about the committed configuration of index at.
func (g *Group[R, E]) changeOf(ctx context.Context, at uint64, what string, n id.NodeID, request func(*raft.Raft) raft.Future) error {
	if at == 0 { // raft would not compare
		return fmt.Errorf("raftfsm: group %s: %s %q: %w", g.c.Group, what, n, errUncommitted)
	}
	return g.change(ctx, what, n, request)
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
