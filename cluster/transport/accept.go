package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// service answers peers: streams and snapshots itself, all else by Config.Calls.
type service struct {
	nodev1.NodeServer
	m *Mux
}

// accepted holds the streams which peers opened: one per peer and class. mu guards it.
type accepted struct {
	mu      sync.Mutex
	streams map[streamKey]*acceptedStream
	traffic map[id.NodeID]*traffic
}

// streamKey names the one stream of a peer and class that counts at a time.
type streamKey struct {
	node  id.NodeID
	class class
}

// acceptedStream is one stream that a peer opened.
type acceptedStream struct {
	m       *Mux
	peer    Peer
	reads   uint8
	class   class
	stream  grpc.BidiStreamingServer[nodev1.LinkRequest, nodev1.LinkResponse]
	out     *sendQueue
	traffic *traffic
	ctx     context.Context
	cancel  context.CancelCauseFunc
	open    bool          // nothing of the peer's stream before it is on its way; belongs to accepted.mu
	written chan struct{} // closed when nothing more is sent, and all that was dropped is told
	done    chan struct{} // closed when nothing of the stream will be handled any more
}

func (a *accepted) init() {
	a.streams, a.traffic = map[streamKey]*acceptedStream{}, map[id.NodeID]*traffic{}
}

// add makes the stream the only one of its peer and class. It returns the one before,
// which is told to end.
func (a *accepted) add(l *acceptedStream) (old *acceptedStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.traffic = a.traffic[l.peer.Node]; l.traffic == nil {
		l.traffic = &traffic{}
		a.traffic[l.peer.Node] = l.traffic
	}
	k := streamKey{l.peer.Node, l.class}
	if old = a.streams[k]; old != nil {
		old.cancel(fmt.Errorf("%w: node %q opened it again", ErrNotConnected, l.peer.Node))
	}
	a.streams[k] = l
	return old
}

// begin lets frames be sent on a stream.
func (a *accepted) begin(l *acceptedStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.open = true
}

// remove takes the stream off, unless a newer one has its place already.
func (a *accepted) remove(l *acceptedStream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := streamKey{l.peer.Node, l.class}
	if a.streams[k] == l {
		delete(a.streams, k)
	}
}

// dropOlder ends streams of incarnations before p.
func (a *accepted) dropOlder(p Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.streams {
		if l.peer.Node == p.Node && l.peer.Epoch < p.Epoch {
			l.cancel(fmt.Errorf("%w: epoch %d of node %q is over, %d was seen", ErrNotConnected, l.peer.Epoch, p.Node, p.Epoch))
		}
	}
}

// drop ends the streams of a peer that is silent: what is sent on them would wait for it, or for
// nobody.
func (a *accepted) drop(p Peer, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.streams {
		if l.peer == p {
			l.cancel(why)
		}
	}
}

// recheck ends streams of nodes that may not be talked to any more.
func (a *accepted) recheck(judge func(Peer, uint8) error) {
	a.mu.Lock()
	streams := slices.Collect(maps.Values(a.streams))
	a.mu.Unlock()
	for _, l := range streams {
		if err := judge(l.peer, l.reads); err != nil {
			l.cancel(err)
		}
	}
}

// stats adds up the streams of a node. The traffic of those that have ended is in it.
func (a *accepted) stats(n id.NodeID) InboundStats {
	a.mu.Lock()
	streams := slices.Collect(maps.Values(a.streams))
	t := a.traffic[n]
	a.mu.Unlock()
	var s InboundStats
	if t != nil {
		s.FramesOut, s.FramesIn = t.framesOut.Load(), t.framesIn.Load()
		s.BytesOut, s.BytesIn = t.bytesOut.Load(), t.bytesIn.Load()
	}
	for _, l := range streams {
		if l.peer.Node == n {
			s.Streams++
			s.QueueBytes += l.out.bytes()
		}
	}
	return s
}

// Link serves one stream of a peer until it breaks or is replaced.
func (s service) Link(stream grpc.BidiStreamingServer[nodev1.LinkRequest, nodev1.LinkResponse]) error {
	from, _ := CallerOf(stream.Context())
	md, _ := metadata.FromIncomingContext(stream.Context())
	if wanted := first(md, mdWanted); wanted != "" && wanted != string(s.m.identity.self.Node) {
		return s.m.identity.misled(from.Node, wanted) // before it takes the place of a stream that is meant
	}
	l := &acceptedStream{
		m: s.m, peer: from, reads: readsOf(md), class: class(first(md, mdStream)), stream: stream,
		out: newSendQueue(&s.m.config), written: make(chan struct{}), done: make(chan struct{}),
	}
	switch l.class {
	case classRaft, classQueue, classControl:
	default:
		return status.Errorf(codes.InvalidArgument, "link class %q of node %q: the classes are %q, %q and %q",
			l.class, from.Node, classRaft, classQueue, classControl)
	}
	l.ctx, l.cancel = context.WithCancelCause(stream.Context())
	defer l.cancel(nil)
	release, err := s.m.processes.hold(from, first(md, mdProcess))
	if err != nil {
		return err
	}
	defer release()
	if old := s.m.accepted.add(l); old != nil {
		<-old.done
	}
	defer s.m.accepted.remove(l)
	if err := stream.SendHeader(metadata.New(s.m.identity.values())); err != nil {
		close(l.done)
		return err
	}
	if p := s.m.lookup(from.Node); p != nil && l.class == classQueue {
		p.kickNow() // it lives: do not wait to connect to it
	}
	s.m.accepted.begin(l)
	s.m.running.Go(l.read)
	s.m.running.Go(l.write)
	// Neither is waited for: a write may be stuck until this stream ends.
	<-l.ctx.Done()
	l.out.close()
	if stream.Context().Err() != nil {
		return nil // the peer, or the connection, ended it
	}
	if known := (refusal{}); errors.As(context.Cause(l.ctx), &known) {
		return known
	}
	return status.Error(codes.Unavailable, context.Cause(l.ctx).Error())
}

// write sends answers to the peer.
func (l *acceptedStream) write() {
	defer close(l.written)
	l.cancel(l.out.drain(l.ctx.Done(), l.traffic, l.stream))
	l.out.close()
}

// read handles what the peer sends, in order.
func (l *acceptedStream) read() {
	defer close(l.done)
	take := l.raftCall
	switch l.class {
	case classRaft:
	case classQueue:
		h := l.m.config.Handler
		h.Inbound(l.peer, true)
		defer func() {
			<-l.written // what never left is known; the stream ends, for l.ctx has
			h.Inbound(l.peer, false)
		}()
		take = func(f *frame.In) {
			if f.Frame != nil {
				h.HandleRequest(l.peer, f.Frame, l.out.push)
			}
		}
	case classControl:
		take = l.heartbeat
	}
	m := frame.NewInMessage(l.peer.Node)
	for {
		if err := l.stream.RecvMsg(m); err != nil {
			l.cancel(err)
			return
		}
		l.traffic.received(len(m.Frames), m.Bytes)
		for i := range m.Frames {
			if l.ctx.Err() != nil {
				return
			}
			take(&m.Frames[i])
		}
	}
}

// heartbeat answers pings; all else is a Raft call.
func (l *acceptedStream) heartbeat(f *frame.In) {
	p := f.Frame.GetPing()
	if p == nil {
		l.raftCall(f)
		return
	}
	if err := l.out.push(pingFrame(p.GetNumber())); err != nil {
		l.cancel(err)
	}
}

// raftCall hands a call to its group here, or refuses it.
func (l *acceptedStream) raftCall(f *frame.In) {
	var rpc raft.WithRPCHeader = f.Call
	group, request := f.Group, f.Request
	if f.Call == nil {
		c := f.Frame.GetRaftCall()
		if c == nil {
			l.cancel(fmt.Errorf("transport: node %q sent something on its Raft link that is no Raft call", l.peer.Node))
			return
		}
		group, request = c.GetGroup(), c.GetRequest()
		var err error
		if rpc, err = frame.CallOf(c); err != nil {
			l.answer(request, nil, err)
			return
		}
	}
	if err := l.m.checkSender(rpc.GetRPCHeader().ID, l.peer); err != nil {
		l.answer(request, nil, err)
		return
	}
	l.m.receive(id.GroupID(group), inboundCall{stream: l, request: request, rpc: rpc})
}

// checkSender refuses Raft calls in the name of another node than the stream's.
func (m *Mux) checkSender(sender []byte, from Peer) error {
	if string(sender) == string(from.Node) {
		return nil
	}
	return fmt.Errorf("node %q sent a Raft call in the name of node %q: the server id in Raft configurations must be the node's id",
		from.Node, sender)
}

func (m *Mux) noGroup(g id.GroupID) error {
	return fmt.Errorf("no member of group %s runs on node %q: it is not started yet, or was removed from here", g, m.config.Node)
}

// answer sends the end of a Raft call. An answer that cannot be queued would stop the
// caller's pipeline for good, so the connection is dropped instead.
func (l *acceptedStream) answer(request uint64, resp any, err error) {
	var f frame.Out
	if r, is := resp.(*raft.AppendEntriesResponse); is && err == nil {
		f.Answer = &frame.AppendAnswer{Request: request, Response: *r}
	} else {
		a := &nodev1.RaftAnswer{Request: request}
		if err == nil {
			err = frame.FillAnswer(a, resp)
		}
		if err != nil {
			a.Error = err.Error()
		}
		f.Frame = &nodev1.Frame{Kind: &nodev1.Frame_RaftAnswer{RaftAnswer: a}}
	}
	if err := l.out.add(f, false); err != nil {
		l.cancel(err)
	}
}
