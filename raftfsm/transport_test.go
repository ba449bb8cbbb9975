package raftfsm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// refusalTime is what a refused call of a leader takes at least.
const refusalTime = time.Millisecond

// heartbeats is raft.InmemTransport with what every real transport has: heartbeats are
// answered beside raft's main goroutine, which may be waiting for the disk.
type heartbeats struct {
	*raft.InmemTransport
	handler  atomic.Pointer[func(raft.RPC)]
	requests chan raft.RPC
	closed   chan struct{}
	closing  sync.Once
	asked    atomic.Int64 // calls for a vote that have ended, one way or another
}

func newHeartbeats(addr raft.ServerAddress) *heartbeats {
	// It gives a snapshot ten times as long, and some tests have one stand still.
	_, inner := raft.NewInmemTransportWithTimeout(addr, 3*time.Second)
	b := &heartbeats{InmemTransport: inner, requests: make(chan raft.RPC, 1024), closed: make(chan struct{})}
	go b.sort()
	return b
}

func (b *heartbeats) sort() {
	for {
		select {
		case <-b.closed:
			return
		case rpc := <-b.InmemTransport.Consumer():
			h := b.handler.Load()
			if a, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && h != nil &&
				len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && a.LeaderCommitIndex == 0 {
				(*h)(rpc)
				continue
			}
			select {
			case b.requests <- rpc:
			case <-b.closed:
				return
			}
		}
	}
}

// Consumer implements raft.Transport.
func (b *heartbeats) Consumer() <-chan raft.RPC { return b.requests }

// SetHeartbeatHandler implements raft.Transport.
func (b *heartbeats) SetHeartbeatHandler(h func(raft.RPC)) { b.handler.Store(&h) }

// AppendEntries implements raft.Transport. A refusal takes time: raft asks again at once, and where a planted fault has a
// follower refuse for ever, a bubble's clock would stand still.
func (b *heartbeats) AppendEntries(node raft.ServerID, at raft.ServerAddress, a *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	err := b.InmemTransport.AppendEntries(node, at, a, answer)
	if err == nil && !answer.Success {
		time.Sleep(refusalTime)
	}
	return err
}

// RequestVote implements raft.Transport.
func (b *heartbeats) RequestVote(node raft.ServerID, at raft.ServerAddress, v *raft.RequestVoteRequest, answer *raft.RequestVoteResponse) error {
	defer b.asked.Add(1)
	return b.InmemTransport.RequestVote(node, at, v, answer)
}

// Inject hands raft a call of this member's own.
func (b *heartbeats) Inject(ctx context.Context, command any) (any, error) {
	answer := make(chan raft.RPCResponse, 1)
	select {
	case b.requests <- raft.RPC{Command: command, RespChan: answer}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case r := <-answer:
		return r.Response, r.Error
	case <-b.closed:
		return nil, errors.New("closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements raft.WithClose.
func (b *heartbeats) Close() error {
	b.closing.Do(func() { close(b.closed) })
	return b.InmemTransport.Close()
}
