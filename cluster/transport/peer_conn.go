package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/phase"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Flow control of HTTP/2 in bytes. The window of a stream bounds what the receiver
// buffers of one that it does not read; the connection's is given back on receipt, so
// a stream that is not read never holds up the others.
const (
	streamWindowBytes = 4 << 20
	connWindowBytes   = 16 << 20
	socketBufferBytes = 64 << 10
	// frameOverheadBytes is what a message on a stream may be larger than its frame.
	frameOverheadBytes = 1 << 10
)

// clientStream is a stream as its opener sees it.
type clientStream = grpc.BidiStreamingClient[nodev1.LinkRequest, nodev1.LinkResponse]

// waiter gets the outcome of a Raft call: by raft's response, or by an error. It
// must not block: the reader of the stream calls it.
type waiter interface {
	complete(resp any, err error)
}

// peerConn is one connection to a peer with its streams, from when both ends accepted
// each other until the first of them breaks.
type peerConn struct {
	l             *local
	node          id.NodeID
	pulse         *pulse.Pulse // the heartbeats with the node
	traffic       *traffic     // counts what the streams carry
	address       string
	patient       time.Duration // to connect
	remote        Peer
	reads         uint8
	ctx           context.Context
	cancel        context.CancelCauseFunc
	client        *grpc.ClientConn
	giveUp        func(error)                 // ends it, and has the peer connect again at once
	conn          atomic.Pointer[net.TCPConn] // of the streams; nil: not connected yet, or a detour
	probing       probing
	deserted      atomic.Bool    // nothing listens at the address
	via           *peerConn      // to the node that passes all of it on; nil: the direct way
	astray        chan struct{}  // of capacity 1: all is silent, seek another route
	detached      chan struct{}  // closed when the peer's run took the connection off
	began         time.Time      // when all of it was open
	heartbeatLine *heartbeatConn // nil: the peer opens it
	sent          atomic.Uint64  // number of the last ping
	asked         atomic.Int64   // when the oldest ping without an answer was sent, nanoseconds since began; 0: none

	heartbeats, raft, queue                *sendQueue
	raftStream, queueStream, controlStream clientStream

	mu     sync.Mutex // guards what follows
	calls  map[uint64]waiter
	next   uint64
	closed error
}

// serve moves frames until the connection fails, and returns why. seek looks for another route, and returns when it
// has one or the connection has failed.
func (pc *peerConn) serve(seek func() error) error {
	var all sync.WaitGroup
	count := pc.traffic
	all.Go(func() {
		pc.fail(pc.raft.drain(pc.ctx.Done(), count, pc.raftStream))
	})
	all.Go(func() {
		pc.fail(pc.queue.drain(pc.ctx.Done(), count, pc.queueStream))
	})
	all.Go(func() { pc.fail(pc.receive(pc.raftStream, pc.answered)) })
	all.Go(func() {
		h := pc.l.config.Handler
		h.PeerUp(pc.remote)
		pc.fail(pc.receive(pc.queueStream, func(f *frame.In) {
			if f.Frame != nil {
				h.HandleAnswer(pc.remote, f.Frame)
			}
		}))
		h.PeerDown(pc.remote)
	})
	all.Go(func() {
		pc.fail(pc.heartbeats.drain(pc.ctx.Done(), count, pc.controlStream))
	})
	all.Go(func() { pc.fail(pc.receive(pc.controlStream, pc.heartbeat)) })
	all.Go(func() { pc.fail(pc.ping()) })
	all.Go(func() { pc.fail(seek()) })
	if pc.heartbeatLine != nil {
		all.Go(func() {
			pc.fail(pc.l.serveHeartbeats(pc.pulse, pc.heartbeatLine.conn, pc.heartbeatLine.reader, pc.remote))
		})
	} else {
		pc.pulse.Expect()
	}
	all.Wait()
	pc.l.log.Debug("peer connection ended", "peer", pc.node, "error", context.Cause(pc.ctx))
	return errors.Join(context.Cause(pc.ctx), pc.closeClient())
}

// closeClient passes over the error of a connection that was closed already.
func (pc *peerConn) closeClient() error {
	if err := pc.client.Close(); err != nil && status.Code(err) != codes.Canceled {
		return err
	}
	return nil
}

// fail ends the connection; the first reason counts. Calls in flight learn of it.
func (pc *peerConn) fail(reason error) {
	switch {
	case reason == nil || errors.Is(reason, io.EOF):
		reason = fmt.Errorf("%w: node %q closed it", ErrNotConnected, pc.node)
	case !errors.Is(reason, ErrNotConnected):
		reason = fmt.Errorf("%w: node %q: %w", ErrNotConnected, pc.node, reason)
	}
	pc.cancel(reason)
	pc.heartbeats.close()
	pc.raft.close()
	pc.queue.close()
	pc.mu.Lock()
	if pc.closed == nil {
		pc.closed = context.Cause(pc.ctx)
	}
	calls := pc.calls
	pc.calls = nil
	pc.mu.Unlock()
	for _, w := range calls {
		w.complete(nil, pc.closed)
	}
}

// abandon ends a connection whose peer is silent. What the system holds for it is dropped: closing it would wait
// until that is sent.
func (pc *peerConn) abandon(reason error) {
	pc.fail(reason)
	if conn := pc.conn.Load(); conn != nil {
		pulse.Reset(conn)
	}
}

// receive calls handle for each frame, in order, until the stream ends, and returns why. A frame is valid
// only during the call.
func (pc *peerConn) receive(stream messageReceiver, handle func(*frame.In)) error {
	m := frame.NewInMessage(pc.node)
	for {
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
		pc.traffic.received(len(m.Frames), m.Bytes)
		for i := range m.Frames {
			handle(&m.Frames[i])
		}
	}
}

// silent is the error of a connection that is given up because its peer is silent.
func (pc *peerConn) silent() error {
	return fmt.Errorf("%w: node %q did not answer within %v", ErrNotConnected, pc.node, pc.pulse.Patience())
}

// ping asks the peer for a sign of life again and again, and ends when all stays silent. Heartbeats detect silence
// sooner, but on another connection.
func (pc *peerConn) ping() error {
	c := &pc.l.config
	wait := func() time.Duration { return phase.Wait(time.Now(), c.PingEvery) }
	next := time.NewTimer(wait())
	defer next.Stop()
	late := time.NewTimer(c.PingTimeout)
	late.Stop()
	defer late.Stop()
	for number := uint64(1); ; {
		select {
		case <-next.C:
			next.Reset(wait())
			pc.sent.Store(number)
			if pc.asked.CompareAndSwap(0, pc.now()) {
				late.Reset(c.PingTimeout)
			}
			if err := pc.heartbeats.push(pingFrame(number)); err != nil {
				return err
			}
			number++
		case <-late.C:
			silent, most := pc.unanswered(), pc.pulse.Patience()
			if silent >= most {
				why := pc.silent()
				pc.abandon(why)
				return why
			}
			if silent > 0 {
				late.Reset(most - silent)
			}
		case <-pc.ctx.Done():
			return context.Cause(pc.ctx)
		}
	}
}

// unanswered returns for how long the peer has not answered, 0 if it has.
func (pc *peerConn) unanswered() time.Duration {
	asked := pc.asked.Load()
	if asked == 0 {
		return 0
	}
	return time.Duration(max(1, pc.now()-asked))
}

// now is the monotonic time since the connection began, in nanoseconds, above 0: a wall clock
// that is set must not end it.
func (pc *peerConn) now() int64 { return max(1, int64(time.Since(pc.began))) }

func pingFrame(number uint64) *nodev1.Frame {
	return &nodev1.Frame{Kind: &nodev1.Frame_Ping{Ping: &nodev1.Ping{Number: number}}}
}

// heartbeat handles what arrives on the stream of small frames.
func (pc *peerConn) heartbeat(f *frame.In) {
	p := f.Frame.GetPing()
	if p == nil {
		pc.answered(f)
		return
	}
	if p.GetNumber() == pc.sent.Load() {
		pc.asked.Store(0)
	} else {
		pc.asked.Store(pc.now())
	}
}

// probe is called each time that a heartbeat shows that packets pass.
func (pc *peerConn) probe() {
	if pc.probing.due(pc.traffic.framesIn.Load(), pc.traffic.framesOut.Load()) {
		_ = pc.heartbeats.push(pingFrame(pc.sent.Load())) // without room there is enough to send
	}
}

// register takes a call up; w learns the end of it exactly once, unless it is forgotten.
func (pc *peerConn) register(w waiter) (request uint64, err error) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.closed != nil {
		return 0, pc.closed
	}
	pc.next++
	pc.calls[pc.next] = w
	return pc.next, nil
}

// send queues a call that was registered. It blocks while the stream's queue is full. Calls
// that touch the log keep their order; heartbeats and votes go past them.
func (pc *peerConn) send(group id.GroupID, request uint64, f frame.Out) error {
	q := pc.heartbeats
	if f.Call != nil && !heartbeat(&f.Call.Args) {
		q = pc.raft
	}
	if err := q.add(f, true); err != nil && pc.forget(request) {
		return fmt.Errorf("node %q, group %s: %w", pc.node, group, err)
	}
	return nil
}

// forget takes a call back; false: its waiter was notified or is being notified.
func (pc *peerConn) forget(request uint64) bool {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	_, held := pc.calls[request]
	delete(pc.calls, request)
	return held
}

// refusedError is a peer's answer that it did not carry a Raft call out: the way to it is good, but it has no such
// member, or no room.
type refusedError struct {
	node id.NodeID
	why  string
}

func (e *refusedError) Error() string { return fmt.Sprintf("transport: node %q: %s", e.node, e.why) }

// Refused lets groups distinguish this error from those of the way to the peer.
func (e *refusedError) Refused() bool { return true }

// answered ends a call. A call that was given up is no longer there.
func (pc *peerConn) answered(f *frame.In) {
	request, resp, err := f.Request, any(f.Answer), error(nil)
	if f.Answer == nil {
		a := f.Frame.GetRaftAnswer()
		if a == nil {
			return
		}
		request = a.GetRequest()
		if a.GetError() != "" {
			err = &refusedError{node: pc.node, why: a.GetError()}
		} else {
			resp, err = frame.ResponseOf(a)
		}
	}
	pc.mu.Lock()
	w := pc.calls[request]
	delete(pc.calls, request)
	pc.mu.Unlock()
	if w != nil {
		w.complete(resp, err)
	}
}

// heartbeat finds a call that raft's handler may answer past its queue: its log is not
// touched.
func heartbeat(rpc raft.WithRPCHeader) bool {
	a, is := rpc.(*raft.AppendEntriesRequest)
	return is && a.Term != 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
}

// drop ends a connection that is not wanted and does not serve.
func (pc *peerConn) drop() {
	pc.cancel(fmt.Errorf("%w: node %q has another way", ErrNotConnected, pc.node))
	_ = pc.closeClient() // it never served
}

// direct reports whether the connection goes straight to the peer.
func (pc *peerConn) direct() bool { return pc.via == nil }
