package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	// frameOverheadBytes is what a message on a link may be larger than its frame.
	frameOverheadBytes = 1 << 10
)

type linkStream = grpc.BidiStreamingClient[nodev1.LinkRequest, nodev1.LinkResponse]

// waiter is told how a Raft call ended: by raft's response, or by an error. It
// must not block: the reader of the link calls it.
type waiter interface {
	complete(resp any, err error)
}

// session is one connection to a peer with its streams, from when both ends accepted
// each other until the first of them breaks.
type session struct {
	p        *peer
	address  string
	patient  time.Duration // to connect
	remote   Peer
	reads    uint8
	ctx      context.Context
	cancel   context.CancelCauseFunc
	conn     *grpc.ClientConn
	deserted atomic.Bool    // nothing listens at the address
	via      *session       // to the node that passes all of it on; nil: the direct way
	astray   chan struct{}  // of capacity 1: all is silent, look for another way
	over     chan struct{}  // closed when the peer's run took the session off
	began    time.Time      // when all of it was open
	line     *heartbeatConn // nil: the peer opens it
	sent     atomic.Uint64  // number of the last ping
	asked    atomic.Int64   // when the oldest ping without an answer was sent, nanoseconds since began; 0: none

	heartbeats, raft, queue                *sendQueue
	raftStream, queueStream, controlStream linkStream

	mu     sync.Mutex // guards what follows
	calls  map[uint64]waiter
	next   uint64
	closed error
}

// serve moves frames until the session fails, and returns why.
func (s *session) serve() error {
	var all sync.WaitGroup
	count := &s.p.traffic
	all.Go(func() {
		s.fail(s.raft.drain(s.ctx.Done(), count, s.raftStream))
	})
	all.Go(func() {
		s.fail(s.queue.drain(s.ctx.Done(), count, s.queueStream))
	})
	all.Go(func() { s.fail(s.receive(s.raftStream, s.answered)) })
	all.Go(func() {
		h := s.p.m.config.Handler
		h.LinkUp(s.remote)
		s.fail(s.receive(s.queueStream, func(f *inFrame) {
			if f.frame != nil {
				h.HandleAnswer(s.remote, f.frame)
			}
		}))
		h.LinkDown(s.remote)
	})
	all.Go(func() {
		s.fail(s.heartbeats.drain(s.ctx.Done(), count, s.controlStream))
	})
	all.Go(func() { s.fail(s.receive(s.controlStream, s.heartbeat)) })
	all.Go(func() { s.fail(s.ping()) })
	all.Go(func() { s.fail(s.seek()) })
	pulse := s.p.m.pulse(s.p.node)
	if s.line != nil {
		all.Go(func() { s.fail(pulse.serve(s.line.conn, s.line.reader, s.remote)) })
	} else {
		pulse.expect()
	}
	all.Wait()
	s.p.m.log.Debug("session ended", "peer", s.p.node, "error", context.Cause(s.ctx))
	return errors.Join(context.Cause(s.ctx), s.closeConn())
}

func (s *session) closeConn() error {
	if err := s.conn.Close(); err != nil && status.Code(err) != codes.Canceled {
		return err
	}
	return nil
}

// fail ends the session; the first reason counts. Calls in flight learn of it.
func (s *session) fail(reason error) {
	switch {
	case reason == nil || errors.Is(reason, io.EOF):
		reason = fmt.Errorf("%w: node %q closed it", ErrLinkDown, s.p.node)
	case !errors.Is(reason, ErrLinkDown):
		reason = fmt.Errorf("%w: node %q: %w", ErrLinkDown, s.p.node, reason)
	}
	s.cancel(reason)
	s.heartbeats.close()
	s.raft.close()
	s.queue.close()
	s.mu.Lock()
	if s.closed == nil {
		s.closed = context.Cause(s.ctx)
	}
	calls := s.calls
	s.calls = nil
	s.mu.Unlock()
	for _, w := range calls {
		w.complete(nil, s.closed)
	}
}

func (s *session) receive(stream messageReceiver, take func(*inFrame)) error {
	m := inMessage{names: names(s.p.node)}
	for {
		if err := stream.RecvMsg(&m); err != nil {
			return err
		}
		s.p.traffic.received(len(m.frames), m.bytes)
		for i := range m.frames {
			take(&m.frames[i])
		}
	}
}

// silent is why a session is given up whose peer is not heard.
func (s *session) silent() error {
	return fmt.Errorf("%w: node %q did not answer within %v", ErrLinkDown, s.p.node, s.p.m.pulse(s.p.node).patience())
}

// ping asks the peer for a sign of life again and again, and ends when all stays silent.
// Heartbeats tell sooner, but of another connection.
func (s *session) ping() error {
	c := &s.p.m.config
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
			s.sent.Store(number)
			if s.asked.CompareAndSwap(0, s.now()) {
				late.Reset(c.PingTimeout)
			}
			if err := s.heartbeats.push(pingFrame(number)); err != nil {
				return err
			}
			number++
		case <-late.C:
			owed, most := s.owed(), s.p.m.pulse(s.p.node).patience()
			if owed >= most {
				return s.silent()
			}
			if owed > 0 {
				late.Reset(most - owed)
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// owed tells for how long the peer has owed an answer, 0 if it does not.
func (s *session) owed() time.Duration {
	asked := s.asked.Load()
	if asked == 0 {
		return 0
	}
	return time.Duration(max(1, s.now()-asked))
}

// now is the monotonic time since the session began, in nanoseconds, above 0: a wall clock
// that is set must not end it.
func (s *session) now() int64 { return max(1, int64(time.Since(s.began))) }

func pingFrame(number uint64) *nodev1.Frame {
	return &nodev1.Frame{Kind: &nodev1.Frame_Ping{Ping: &nodev1.Ping{Number: number}}}
}

// heartbeat takes what comes back on the link of small frames.
func (s *session) heartbeat(f *inFrame) {
	p := f.frame.GetPing()
	if p == nil {
		s.answered(f)
		return
	}
	if p.GetNumber() == s.sent.Load() {
		s.asked.Store(0)
	} else {
		s.asked.Store(s.now())
	}
}

// register takes a call up; w learns the end of it exactly once, unless it is forgotten.
func (s *session) register(w waiter) (request uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return 0, s.closed
	}
	s.next++
	s.calls[s.next] = w
	return s.next, nil
}

// send queues a call that was registered. It blocks while the link's queue is full. Calls
// that touch the log keep their order; heartbeats and votes go past them.
func (s *session) send(group id.GroupID, request uint64, f outFrame) error {
	q := s.heartbeats
	if f.call != nil && !heartbeat(&f.call.args) {
		q = s.raft
	}
	if err := q.add(f, true); err != nil && s.forget(request) {
		return fmt.Errorf("node %q, group %s: %w", s.p.node, group, err)
	}
	return nil
}

// forget takes a call back; false: its waiter was told or is being told.
func (s *session) forget(request uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.calls[request]
	delete(s.calls, request)
	return held
}

// refusedError is a peer's word that it did not carry a Raft call out: the way to it is
// good, but it has no such member, or no room.
type refusedError struct {
	node id.NodeID
	why  string
}

func (e *refusedError) Error() string { return fmt.Sprintf("transport: node %q: %s", e.node, e.why) }

// Refused tells groups this error from those of the way to the peer.
func (e *refusedError) Refused() bool { return true }

// answered ends a call. A call that was given up is not there any more.
func (s *session) answered(f *inFrame) {
	request, resp, err := f.request, any(f.answer), error(nil)
	if f.answer == nil {
		a := f.frame.GetRaftAnswer()
		if a == nil {
			return
		}
		request = a.GetRequest()
		if a.GetError() != "" {
			err = &refusedError{node: s.p.node, why: a.GetError()}
		} else {
			resp, err = respOf(a)
		}
	}
	s.mu.Lock()
	w := s.calls[request]
	delete(s.calls, request)
	s.mu.Unlock()
	if w != nil {
		w.complete(resp, err)
	}
}
