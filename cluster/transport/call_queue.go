package transport

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
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
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return false, true
}

// take returns the oldest call; if there is none and idle is set, serving ends.
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

// receive takes a call from the reader of a stream and never blocks it.
func (g *group) receive(c inboundCall) {
	c.done = make(chan raft.RPCResponse, 1)
	l, serve := &g.calls, g.serveCalls
	if heartbeat(c.rpc) && g.heartbeat.Load() != nil {
		l, serve = &g.heartbeats, g.serveHeartbeats
	}
	start, fits := l.add(c)
	if !fits {
		c.stream.answer(c.request, nil, fmt.Errorf("%d calls wait for group %s on node %q already", l.limit, g.id, g.m.config.Node))
		return
	}
	if start {
		go serve()
	}
}

// heartbeat finds a call that raft's handler may answer past its queue: its log is not
// touched.
func heartbeat(rpc raft.WithRPCHeader) bool {
	a, is := rpc.(*raft.AppendEntriesRequest)
	return is && a.Term != 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// serveHeartbeats answers heartbeats at once, while the member may be busy with its disk.
func (g *group) serveHeartbeats() {
	for {
		c, ok := g.heartbeats.take(true)
		if !ok {
			return
		}
		(*g.heartbeat.Load())(raft.RPC{Command: c.rpc, RespChan: c.done})
		select {
		case r := <-c.done:
			c.stream.answer(c.request, r.Response, r.Error)
		default: // raft ignores heartbeats once it is shut down
			c.stream.answer(c.request, nil, g.m.noGroup(g.id))
		}
	}
}

// serveCalls hands calls to raft one behind the other and sends answers as they come, in
// order. Raft need not wait for this goroutine between two calls, but where each goes through
// a function that waits for raft's answer itself.
func (g *group) serveCalls() {
	var open []inboundCall // handed to raft, oldest first
	next, has := g.calls.take(false)
	for has || len(open) > 0 {
		if has && g.receives() {
			if !g.hand(raft.RPC{Command: next.rpc, RespChan: next.done}, g.done) {
				g.refuse(open, next, has)
				return
			}
			open = sendReady(append(open, next))
			next, has = g.calls.take(len(open) == 0)
			continue
		}
		var give chan raft.RPC
		var received chan struct{}
		var rpc raft.RPC
		if has {
			give, received, rpc = g.consumer, g.received, raft.RPC{Command: next.rpc, RespChan: next.done}
		}
		var answered chan raft.RPCResponse
		if len(open) > 0 {
			answered = open[0].done
		}
		select {
		case give <- rpc:
			open = append(open, next)
			next, has = g.calls.take(false)
		case <-received:
			continue
		case r := <-answered:
			open[0].stream.answer(open[0].request, r.Response, r.Error)
			open = open[1:]
		case <-g.calls.wake:
		case <-g.done:
			g.refuse(open, next, has)
			return
		}
		if !has {
			next, has = g.calls.take(len(open) == 0)
		}
	}
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

// refuse answers all that will not be served: the group ended here. The queue of calls stays in
// service, so that it refuses from here on.
func (g *group) refuse(open []inboundCall, next inboundCall, has bool) {
	for _, c := range open {
		c.stream.answer(c.request, nil, g.m.noGroup(g.id))
	}
	for has {
		next.stream.answer(next.request, nil, g.m.noGroup(g.id))
		next, has = g.calls.take(true)
	}
	// One that came after the last look is refused by the goroutine that it starts.
	for c, ok := g.calls.take(true); ok; c, ok = g.calls.take(true) {
		c.stream.answer(c.request, nil, g.m.noGroup(g.id))
	}
}
