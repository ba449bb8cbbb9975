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
	reads   uint8
	class   class
	stream  grpc.BidiStreamingServer[nodev1.LinkRequest, nodev1.LinkResponse]
	out     *sendQueue
	traffic *traffic
	ctx     context.Context
	cancel  context.CancelCauseFunc
	open    bool          // nothing of the peer's link before it is on its way; belongs to accepted.mu
	written chan struct{} // closed when nothing more is sent, and all that was dropped is told
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

// begin lets frames be sent on a link.
func (a *accepted) begin(l *acceptedLink) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.open = true
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

// drop ends the links of a peer that is silent: what is sent on them would wait for it, or for
// nobody.
func (a *accepted) drop(p Peer, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.links {
		if l.peer == p {
			l.cancel(why)
		}
	}
}

// recheck ends links of nodes that may not be talked to any more.
func (a *accepted) recheck(judge func(Peer, uint8) error) {
	a.mu.Lock()
	links := slices.Collect(maps.Values(a.links))
	a.mu.Unlock()
	for _, l := range links {
		if err := judge(l.peer, l.reads); err != nil {
			l.cancel(err)
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
	if wanted := first(md, mdWanted); wanted != "" && wanted != string(s.m.identity.self.Node) {
		return s.m.identity.misled(from.Node, wanted) // before it takes the place of a link that is meant
	}
	l := &acceptedLink{
		m: s.m, peer: from, reads: readsOf(md), class: class(first(md, mdLink)), stream: stream,
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
func (l *acceptedLink) write() {
	defer close(l.written)
	l.cancel(l.out.drain(l.ctx.Done(), l.traffic, l.stream))
	l.out.close()
}

// read handles what the peer sends, in order.
func (l *acceptedLink) read() {
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
		take = func(f *inFrame) {
			if f.frame != nil {
				h.HandleRequest(l.peer, f.frame, l.out.push)
			}
		}
	case classControl:
		take = l.heartbeat
	}
	m := inMessage{names: names(l.peer.Node)}
	for {
		if err := l.stream.RecvMsg(&m); err != nil {
			l.cancel(err)
			return
		}
		l.traffic.received(len(m.frames), m.bytes)
		for i := range m.frames {
			if l.ctx.Err() != nil {
				return
			}
			take(&m.frames[i])
		}
	}
}

// heartbeat answers pings; all else is a Raft call.
func (l *acceptedLink) heartbeat(f *inFrame) {
	p := f.frame.GetPing()
	if p == nil {
		l.raftCall(f)
		return
	}
	if err := l.out.push(pingFrame(p.GetNumber())); err != nil {
		l.cancel(err)
	}
}

// raftCall hands a call to its group here, or refuses it.
func (l *acceptedLink) raftCall(f *inFrame) {
	var rpc raft.WithRPCHeader = f.call
	group, request := f.group, f.request
	if f.call == nil {
		c := f.frame.GetRaftCall()
		if c == nil {
			l.cancel(fmt.Errorf("transport: node %q sent something on its Raft link that is no Raft call", l.peer.Node))
			return
		}
		group, request = c.GetGroup(), c.GetRequest()
		var err error
		if rpc, err = rpcOf(c); err != nil {
			l.answer(request, nil, err)
			return
		}
	}
	if err := l.m.checkSender(rpc.GetRPCHeader().ID, l.peer); err != nil {
		l.answer(request, nil, err)
		return
	}
	l.m.receive(id.GroupID(group), inboundCall{link: l, request: request, rpc: rpc})
}

// checkSender refuses Raft calls in the name of another node than the link's.
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
// caller's pipeline for good, so the link is dropped instead.
func (l *acceptedLink) answer(request uint64, resp any, err error) {
	var f outFrame
	if r, is := resp.(*raft.AppendEntriesResponse); is && err == nil {
		f.answer = &appendAnswer{request: request, resp: *r}
	} else {
		a := &nodev1.RaftAnswer{Request: request}
		if err == nil {
			err = fillAnswer(a, resp)
		}
		if err != nil {
			a.Error = err.Error()
		}
		f.frame = &nodev1.Frame{Kind: &nodev1.Frame_RaftAnswer{RaftAnswer: a}}
	}
	if err := l.out.add(f, false); err != nil {
		l.cancel(err)
	}
}
