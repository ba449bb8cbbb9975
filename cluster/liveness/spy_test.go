package liveness

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// spy counts what a group sends.
type spy struct {
	groupTransport
	appends, votes *atomic.Int64
}

// groupTransport is all that transport.Mux.Raft returns.
type groupTransport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
	AppendEntriesNow(n raft.ServerID, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error
	Inject(ctx context.Context, command any) (any, error)
	Receive(hand func(rpc raft.RPC, done <-chan struct{}) bool)
}

func (s spy) AppendEntries(n raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	s.appends.Add(1)
	return s.groupTransport.AppendEntries(n, to, a, r)
}

func (s spy) AppendEntriesNow(n raft.ServerID, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	s.appends.Add(1)
	return s.groupTransport.AppendEntriesNow(n, a, r)
}

func (s spy) RequestVote(n raft.ServerID, to raft.ServerAddress, a *raft.RequestVoteRequest, r *raft.RequestVoteResponse) error {
	s.votes.Add(1)
	return s.groupTransport.RequestVote(n, to, a, r)
}
