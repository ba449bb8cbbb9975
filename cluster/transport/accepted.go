package transport

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// accepted holds the streams which peers opened, until nothing more of them is handled: one per peer and class. mu guards
// it.
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
	peer    Peer
	reads   uint8
	class   class
	stream  grpc.BidiStreamingServer[nodev1.LinkRequest, nodev1.LinkResponse]
	out     *sendQueue
	traffic *traffic
	ctx     context.Context
	cancel  context.CancelCauseFunc
	open    bool          // nothing of the peer's stream before it is on its way; belongs to accepted.mu
	written chan struct{} // closed when nothing more is sent, and all that was dropped is reported
	done    chan struct{} // closed when nothing more of the stream will be handled
}

func (a *accepted) init() {
	a.streams, a.traffic = map[streamKey]*acceptedStream{}, map[id.NodeID]*traffic{}
}

// add makes the stream the only one of its peer and class. It returns the one before,
// which is ordered to end.
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

// remove takes the stream off, unless a newer one has its place already, which waits for that: it is called when nothing
// more of the stream is handled, however long ago it ended. It waits for the one before.
func (a *accepted) remove(l, old *acceptedStream) {
	old.handled()
	a.mu.Lock()
	defer a.mu.Unlock()
	k := streamKey{l.peer.Node, l.class}
	if a.streams[k] == l {
		delete(a.streams, k)
	}
	close(l.done)
}

// handled waits until nothing more of the stream will be handled. nil is no stream.
func (l *acceptedStream) handled() {
	if l != nil {
		<-l.done
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

// recheck ends streams of nodes with which this node may no longer communicate.
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

// whole reports whether all streams of a node's own connection are open here.
func (a *accepted) whole(n id.NodeID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range []class{classRaft, classQueue, classControl} {
		if l := a.streams[streamKey{n, c}]; l == nil || !l.open || l.ctx.Err() != nil {
			return false
		}
	}
	return true
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
		if l.peer.Node == n && l.ctx.Err() == nil {
			s.Streams++
			s.QueueBytes += l.out.bytes()
		}
	}
	return s
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
