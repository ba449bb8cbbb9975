package transport

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// service answers peers: links and snapshots itself, all else by Config.Calls.
type service struct {
	nodev1.NodeServer
	m *Mux
}

// accepted holds the links which peers opened: one per peer and class. mu guards it.
type accepted struct {
	mu      sync.Mutex
	links   map[linkKey]*acceptedLink
	traffic map[id.NodeID]*traffic
}

type linkKey struct {
	node  id.NodeID
	class class
}

// acceptedLink is one stream that a peer opened.
type acceptedLink struct {
	m       *Mux
	peer    Peer
	class   class
	stream  grpc.BidiStreamingServer[nodev1.LinkRequest, nodev1.LinkResponse]
	out     *sendQueue
	traffic *traffic
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when nothing of the link will be handled any more
}

func (a *accepted) init() {
	a.links, a.traffic = map[linkKey]*acceptedLink{}, map[id.NodeID]*traffic{}
}

// add makes the link the only one of its peer and class. It returns the one before,
// which is told to end.
func (a *accepted) add(l *acceptedLink) (old *acceptedLink) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.traffic = a.traffic[l.peer.Node]; l.traffic == nil {
		l.traffic = &traffic{}
		a.traffic[l.peer.Node] = l.traffic
	}
	k := linkKey{l.peer.Node, l.class}
	if old = a.links[k]; old != nil {
		old.cancel(fmt.Errorf("%w: node %q opened it again", ErrLinkDown, l.peer.Node))
	}
	a.links[k] = l
	return old
}

func (a *accepted) remove(l *acceptedLink) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := linkKey{l.peer.Node, l.class}
	if a.links[k] == l {
		delete(a.links, k)
	}
}

// dropOlder ends links of incarnations before p.
func (a *accepted) dropOlder(p Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.links {
		if l.peer.Node == p.Node && l.peer.Epoch < p.Epoch {
			l.cancel(fmt.Errorf("%w: epoch %d of node %q is over, %d was seen", ErrLinkDown, l.peer.Epoch, p.Node, p.Epoch))
		}
	}
}

func (a *accepted) stats(n id.NodeID) InboundStats {
	a.mu.Lock()
	links := slices.Collect(maps.Values(a.links))
	t := a.traffic[n]
	a.mu.Unlock()
	var s InboundStats
	if t != nil {
		s.FramesOut, s.FramesIn = t.framesOut.Load(), t.framesIn.Load()
		s.BytesOut, s.BytesIn = t.bytesOut.Load(), t.bytesIn.Load()
	}
	for _, l := range links {
		if l.peer.Node == n {
			s.Links++
			s.QueueBytes += l.out.bytes()
		}
	}
	return s
}

// Link serves one stream of a peer until it breaks or is replaced.
func (s service) Link(stream grpc.BidiStreamingServer[nodev1.LinkRequest, nodev1.LinkResponse]) error {
	from, _ := CallerOf(stream.Context())
	md, _ := metadata.FromIncomingContext(stream.Context())
	l := &acceptedLink{
		m: s.m, peer: from, class: class(first(md, mdLink)), stream: stream,
		out: newSendQueue(&s.m.config), done: make(chan struct{}),
	}
	switch l.class {
	case classRaft, classQueue, classBeat:
	default:
		return status.Errorf(codes.InvalidArgument, "link class %q of node %q: the classes are %q, %q and %q",
			l.class, from.Node, classRaft, classQueue, classBeat)
	}
	l.ctx, l.cancel = context.WithCancelCause(stream.Context())
	defer l.cancel(nil)
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
	s.m.running.Go(l.read)
	s.m.running.Go(l.write)
	// Neither is waited for: a write may be stuck until this stream ends.
	<-l.ctx.Done()
	l.out.close()
	if stream.Context().Err() != nil {
		return nil // the peer, or the connection, ended it
	}
	return status.Error(codes.Unavailable, context.Cause(l.ctx).Error())
}

// write sends answers to the peer.
func (l *acceptedLink) write() {
	l.cancel(l.out.drain(l.ctx.Done(), l.traffic, func(fs []*nodev1.Frame) error {
		return l.stream.Send(&nodev1.LinkResponse{Frames: fs})
	}))
}

// read handles what the peer sends, in order.
func (l *acceptedLink) read() {
	defer close(l.done)
	take := l.echo
	switch l.class {
	case classRaft:
		take = l.raftCall
	case classQueue:
		h := l.m.config.Handler
		h.Inbound(l.peer, true)
		defer h.Inbound(l.peer, false)
		take = func(f *nodev1.Frame) { h.HandleRequest(l.peer, f, l.out.push) }
	case classBeat:
	}
	for {
		r, err := l.stream.Recv()
		if err != nil {
			l.cancel(err)
			return
		}
		l.traffic.received(len(r.GetFrames()), proto.Size(r))
		for _, f := range r.GetFrames() {
			if l.ctx.Err() != nil {
				return
			}
			take(f)
		}
	}
}

func (l *acceptedLink) echo(f *nodev1.Frame) {
	if err := l.out.push(f); err != nil {
		l.cancel(err)
	}
}

// raftCall hands a call to its group here, or refuses it.
func (l *acceptedLink) raftCall(f *nodev1.Frame) {
	call := f.GetRaftCall()
	if call == nil {
		l.cancel(fmt.Errorf("transport: node %q sent %T on its Raft link", l.peer.Node, f.GetKind()))
		return
	}
	rpc, header, err := rpcOf(call)
	if err == nil {
		err = l.m.checkSender(header, l.peer)
	}
	if err != nil {
		l.answer(call.GetRequest(), nil, err)
		return
	}
	g := l.m.group(id.GroupID(call.GetGroup()))
	if g == nil {
		l.answer(call.GetRequest(), nil, l.m.noGroup(id.GroupID(call.GetGroup())))
		return
	}
	g.receive(inboundCall{link: l, request: call.GetRequest(), rpc: rpc})
}

// checkSender refuses Raft calls in the name of another node than the link's.
func (m *Mux) checkSender(header *nodev1.RaftHeader, from Peer) error {
	if string(header.GetId()) == string(from.Node) {
		return nil
	}
	return fmt.Errorf("node %q sent a Raft call in the name of node %q: the server id in Raft configurations must be the node's id",
		from.Node, header.GetId())
}

func (m *Mux) noGroup(g id.GroupID) error {
	return fmt.Errorf("no member of group %s runs on node %q: it is not started yet, or was removed from here", g, m.config.Node)
}

// answer sends the end of a Raft call. An answer that cannot be queued would stop the
// caller's pipeline for good, so the link is dropped instead.
func (l *acceptedLink) answer(request uint64, resp any, err error) {
	a := &nodev1.RaftAnswer{Request: request}
	if err == nil {
		err = fillAnswer(a, resp)
	}
	if err != nil {
		a.Error = err.Error()
	}
	if err := l.out.push(&nodev1.Frame{Kind: &nodev1.Frame_RaftAnswer{RaftAnswer: a}}); err != nil {
		l.cancel(err)
	}
}
