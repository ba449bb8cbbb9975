package transport

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// receive takes a call from the reader of a stream and never blocks it.
func (g *group) receive(c inboundCall) {
	if _, handOver := c.rpc.(*raft.TimeoutNowRequest); handOver && g.l.pulses.Drains() {
		c.stream.answer(c.request, nil, g.l.noHandOver())
		return
	}
	c.done = make(chan raft.RPCResponse, 1)
	l, serve := &g.calls, g.serveCalls
	if heartbeat(c.rpc) && g.heartbeat.Load() != nil {
		l, serve = &g.heartbeats, g.serveHeartbeats
	}
	start, fits := l.add(c)
	if !fits {
		c.stream.answer(c.request, nil, fmt.Errorf("%d calls wait for group %s on node %q already", l.limit, g.id, g.l.config.Node))
		return
	}
	if start {
		go serve()
	}
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
			c.stream.answer(c.request, nil, g.l.noGroup(g.id))
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

// refuse answers all that will not be served: the group ended here. The queue of calls stays in
// service, so that it refuses from here on.
func (g *group) refuse(open []inboundCall, next inboundCall, has bool) {
	for _, c := range open {
		c.stream.answer(c.request, nil, g.l.noGroup(g.id))
	}
	for has {
		next.stream.answer(next.request, nil, g.l.noGroup(g.id))
		next, has = g.calls.take(true)
	}
	// One that came after the last look is refused by the goroutine that it starts.
	for c, ok := g.calls.take(true); ok; c, ok = g.calls.take(true) {
		c.stream.answer(c.request, nil, g.l.noGroup(g.id))
	}
}
