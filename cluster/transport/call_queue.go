package transport

import (
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/wait"
)

// inboundCall is a Raft call on its way through a group's member here.
type inboundCall struct {
	stream  *acceptedStream
	request uint64
	rpc     raft.WithRPCHeader
	done    chan raft.RPCResponse
}

// callQueue holds the calls that wait for one group, in order. A goroutine serves it only
// while there are some; mu guards the fields below it.
type callQueue struct {
	limit   int
	wake    chan struct{} // of capacity 1: calls arrived while the queue of calls is served
	mu      sync.Mutex
	calls   []inboundCall
	serving bool
}

// add queues a call. start: the caller has to serve the queue of calls.
func (l *callQueue) add(c inboundCall) (start, fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= l.limit {
		return false, false
	}
	l.calls = append(l.calls, c)
	if !l.serving {
		l.serving = true
		return true, true
	}
	wait.Wake(l.wake)
	return false, true
}

// take returns the oldest call; if no call waits and idle is set, serving ends.
func (l *callQueue) take(idle bool) (inboundCall, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		l.calls = nil
		l.serving = !idle
		return inboundCall{}, false
	}
	c := l.calls[0]
	l.calls[0] = inboundCall{}
	l.calls = l.calls[1:]
	return c, true
}

// sendReady sends the answers that are there, in order, and returns the calls without.
func sendReady(open []inboundCall) []inboundCall {
	for len(open) > 0 {
		select {
		case r := <-open[0].done:
			open[0].stream.answer(open[0].request, r.Response, r.Error)
			open = open[1:]
		default:
			return open
		}
	}
	return nil
}
