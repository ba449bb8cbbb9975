package transport

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// received is a group's transport, as those who take its calls by a function see it.
type received interface {
	raft.Transport
	Receive(hand func(rpc raft.RPC, done <-chan struct{}) bool)
	Inject(ctx context.Context, command any) (any, error)
}

// Calls go to the function, in order, from one goroutine; one that came before there was a
// function, too. Answers go out as they come, in order, however late, and none is left for
// the Consumer.
func TestReceive(t *testing.T) {
	a, b := pair(t, nil)
	from := a.Raft(1024)
	to, ok := b.Raft(1024).(received)
	if !ok {
		t.Fatal("the group's transport cannot Receive")
	}
	const calls = 50
	results := make(chan error, calls)
	call := func() {
		go func() {
			results <- from.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{})
		}()
	}
	call()
	until(t, "the first call waits", func() bool {
		g := b.group(1024)
		g.calls.mu.Lock()
		defer g.calls.mu.Unlock()
		return g.calls.serving
	})
	var inside atomic.Int32
	held := make(chan chan<- raft.RPCResponse, calls)
	to.Receive(func(rpc raft.RPC, _ <-chan struct{}) bool {
		if inside.Add(1) > 1 {
			t.Error("two calls at the same time")
		}
		held <- rpc.RespChan
		inside.Add(-1)
		return true
	})
	for range calls - 1 {
		call()
	}
	var all []chan<- raft.RPCResponse
	for range calls {
		all = append(all, <-held) // although none was answered
	}
	select {
	case err := <-results:
		t.Errorf("a call ended before it was answered: %v", err)
	case <-to.Consumer():
		t.Error("a call went to the Consumer")
	default:
	}
	for _, c := range all {
		c <- raft.RPCResponse{Response: &raft.AppendEntriesResponse{Success: true}}
	}
	for range calls {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// What the node itself hands over goes the same way, and not at all once nobody waits for
// it: a member must not stand for election long after it was asked to.
func TestReceiveInjected(t *testing.T) {
	_, b := pair(t, nil)
	to, ok := b.Raft(1024).(received)
	if !ok {
		t.Fatal("the group's transport cannot Receive")
	}
	to.Receive(func(rpc raft.RPC, done <-chan struct{}) bool {
		if _, takes := rpc.Command.(*raft.TimeoutNowRequest); !takes {
			<-done
			return false
		}
		rpc.Respond(&raft.TimeoutNowResponse{}, nil)
		return true
	})
	if _, err := to.Inject(t.Context(), &raft.TimeoutNowRequest{}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := to.Inject(ctx, &raft.RequestVoteRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
