package transport

import (
	"context"
	"errors"
	"fmt"

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

// Link serves one stream of a peer until it breaks or is replaced.
func (s service) Link(stream grpc.BidiStreamingServer[nodev1.LinkRequest, nodev1.LinkResponse]) error {
	from, _ := CallerOf(stream.Context())
	md, _ := metadata.FromIncomingContext(stream.Context())
	if wanted := first(md, mdWanted); wanted != "" && wanted != string(s.m.identity.self.Node) {
		return s.m.identity.misled(from.Node, wanted) // before it takes the place of a stream that is meant
	}
	l := &acceptedStream{
		peer: from, reads: readsOf(md), class: class(first(md, mdStream)), stream: stream,
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
	if conn := connOf(stream.Context()); conn != nil && l.class == classControl { // of those on the connection, one
		defer s.m.watch(from.Node, conn.TCPConn)()
	}
	old := s.m.accepted.add(l)
	if err := stream.SendHeader(metadata.New(s.m.identity.values())); err != nil {
		s.m.running.Go(func() { s.m.accepted.remove(l, old) })
		return err
	}
	if p := s.m.lookup(from.Node); p != nil && l.class == classQueue {
		p.kickNow() // it lives: do not wait to connect to it
	}
	s.m.running.Go(func() { s.read(l, old) })
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

// read handles what the peer sends, in order: nothing of it before all of its stream before, whose handling may take
// longer than that stream lasts.
func (s service) read(l, old *acceptedStream) {
	defer s.m.accepted.remove(l, old)
	old.handled()
	if l.ctx.Err() != nil {
		return
	}
	s.m.accepted.begin(l)
	take := func(f *frame.In) { s.raftCall(l, f) }
	switch l.class {
	case classRaft:
	case classQueue:
		h := s.m.config.Handler
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
		take = func(f *frame.In) { s.heartbeat(l, f) }
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
func (s service) heartbeat(l *acceptedStream, f *frame.In) {
	p := f.Frame.GetPing()
	if p == nil {
		s.raftCall(l, f)
		return
	}
	if err := l.out.push(pingFrame(p.GetNumber())); err != nil {
		l.cancel(err)
	}
}

// raftCall hands a call to its group here, or refuses it.
func (s service) raftCall(l *acceptedStream, f *frame.In) {
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
	if err := checkSender(rpc.GetRPCHeader().ID, l.peer); err != nil {
		l.answer(request, nil, err)
		return
	}
	s.m.receive(id.GroupID(group), inboundCall{stream: l, request: request, rpc: rpc})
}
