package transport

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// group is the transport of one Raft group: raft.Transport with pre-vote and close.
type group struct {
	l          *local
	peers      *peers
	closed     func(*group) // Close was called
	id         id.GroupID
	consumer   chan raft.RPC
	received   chan struct{} // closed when hand is set
	hand       func(rpc raft.RPC, done <-chan struct{}) bool
	ctx        context.Context // ends with done
	done       <-chan struct{}
	cancel     context.CancelFunc
	heartbeat  atomic.Pointer[func(raft.RPC)]
	calls      callQueue // in order, through raft's queue
	heartbeats callQueue // heartbeats, past it
	pipelines  pipelines
}

var (
	_ raft.Transport   = (*group)(nil)
	_ raft.WithPreVote = (*group)(nil)
	_ raft.WithClose   = (*group)(nil)
)

// newGroup returns the group's transport, which ends with stop alone: the Mux may be closed before raft is.
func newGroup(l *local, peers *peers, g id.GroupID, closed func(*group)) *group {
	n := &group{
		l: l, peers: peers, closed: closed, id: g, consumer: make(chan raft.RPC), received: make(chan struct{}),
		pipelines: pipelines{live: map[*pipeline]struct{}{}},
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.done = n.ctx.Done()
	for _, q := range []*callQueue{&n.calls, &n.heartbeats} {
		q.limit, q.wake = l.config.MaxInboundCalls, make(chan struct{}, 1)
	}
	return n
}

// Consumer implements raft.Transport.
func (g *group) Consumer() <-chan raft.RPC { return g.consumer }

// Receive lets calls go to a function instead of the Consumer, each from a goroutine that
// is there only while calls are. hand returns when raft has the call or, if that has to
// wait, raft's answer; false if done was closed before raft had the call. It is called once.
func (g *group) Receive(hand func(rpc raft.RPC, done <-chan struct{}) bool) {
	g.hand = hand
	close(g.received)
}

// receives reports whether calls go to hand.
func (g *group) receives() bool {
	select {
	case <-g.received:
		return true
	default:
		return false
	}
}

// deliver gives a call to raft; false if done was closed, or the group, before raft had it.
func (g *group) deliver(rpc raft.RPC, done <-chan struct{}) bool {
	if !g.receives() {
		select {
		case g.consumer <- rpc:
			return true
		case <-g.received:
		case <-g.done:
			return false
		case <-done:
			return false
		}
	}
	return g.hand(rpc, done)
}

// LocalAddr implements raft.Transport.
func (g *group) LocalAddr() raft.ServerAddress { return raft.ServerAddress(g.l.config.Node) }

// EncodePeer implements raft.Transport. Addresses are ids of nodes.
func (g *group) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// DecodePeer implements raft.Transport.
func (g *group) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport. The handler runs in a goroutine of its
// own, one call at a time.
func (g *group) SetHeartbeatHandler(h func(raft.RPC)) {
	if h == nil {
		g.heartbeat.Store(nil)
		return
	}
	g.heartbeat.Store(&h)
}

// Close implements raft.WithClose: the group no longer has a member here.
func (g *group) Close() error {
	g.closed(g)
	g.stop()
	return nil
}

// stop ends calls and pipelines, and lets none begin. It may be called again.
func (g *group) stop() {
	g.cancel()
	g.pipelines.end()
}

// AppendEntries implements raft.Transport. While the peer is down the call waits, so
// that raft's back-off does not grow and the call goes out as soon as the connection is up.
// Entries beyond Config.MaxAppendBytes are cut off args: raft continues behind what was sent.
func (g *group) AppendEntries(
	to raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	frame.Trim(args, g.l.config.MaxAppendBytes)
	c := &frame.AppendCall{Group: uint64(g.id), Args: *args}
	got, err := g.call(to, true, func(request uint64) frame.Out {
		c.Request = request
		return frame.Out{Call: c}
	})
	if err != nil {
		return err
	}
	return frame.Into(got, resp)
}

// AppendEntriesNow is AppendEntries that fails at once while the peer is down.
func (g *group) AppendEntriesNow(to raft.ServerID, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	c := &frame.AppendCall{Group: uint64(g.id), Args: *args}
	got, err := g.call(to, false, func(request uint64) frame.Out {
		c.Request = request
		return frame.Out{Call: c}
	})
	if err != nil {
		return err
	}
	return frame.Into(got, resp)
}

// RequestVote implements raft.Transport. It fails at once while the peer is down: a vote
// that comes late helps nobody.
func (g *group) RequestVote(
	to raft.ServerID, _ raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	got, err := g.callNow(to, &nodev1.RaftCall{Rpc: &nodev1.RaftCall_RequestVote{RequestVote: frame.VoteRequest(args)}})
	if err != nil {
		return err
	}
	return frame.Into(got, resp)
}

// RequestPreVote implements raft.WithPreVote; see RequestVote.
func (g *group) RequestPreVote(
	to raft.ServerID, _ raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	got, err := g.callNow(to, &nodev1.RaftCall{Rpc: &nodev1.RaftCall_RequestPreVote{RequestPreVote: frame.PreVoteRequest(args)}})
	if err != nil {
		return err
	}
	return frame.Into(got, resp)
}

// TimeoutNow implements raft.Transport; see RequestVote.
func (g *group) TimeoutNow(
	to raft.ServerID, _ raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse,
) error {
	got, err := g.callNow(to, &nodev1.RaftCall{Rpc: &nodev1.RaftCall_TimeoutNow{
		TimeoutNow: &nodev1.TimeoutNowRequest{Header: frame.HeaderTo(args.RPCHeader)},
	}})
	if err != nil {
		return err
	}
	return frame.Into(got, resp)
}

// AppendEntriesPipeline implements raft.Transport. It fails while the peer is down; raft
// falls back to AppendEntries, which waits.
func (g *group) AppendEntriesPipeline(to raft.ServerID, _ raft.ServerAddress) (raft.AppendPipeline, error) {
	pc, err := g.connection(to, false)
	if err != nil {
		return nil, err
	}
	return g.pipelines.begin(g.id, &g.l.config, pc)
}

// syncCall is a call that a goroutine waits for.
type syncCall struct {
	done chan struct{}
	resp any
	err  error
}

func (c *syncCall) complete(resp any, err error) {
	c.resp, c.err = resp, err
	close(c.done)
}

// callNow sends a call that is useless when late, and waits for its answer.
func (g *group) callNow(to raft.ServerID, c *nodev1.RaftCall) (any, error) {
	return g.call(to, false, func(request uint64) frame.Out {
		c.Group, c.Request = uint64(g.id), request
		return frame.Out{Frame: &nodev1.Frame{Kind: &nodev1.Frame_RaftCall{RaftCall: c}}}
	})
}

// call sends and waits for the answer; if park is set, it first waits for a connection.
func (g *group) call(to raft.ServerID, park bool, of func(request uint64) frame.Out) (any, error) {
	pc, err := g.connection(to, park)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(g.l.config.CallTimeout)
	defer late.Stop()
	w := &syncCall{done: make(chan struct{})}
	request, err := pc.register(w)
	if err == nil {
		err = pc.send(g.id, request, of(request))
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-w.done:
		return w.resp, w.err
	case <-late.C:
		err = fmt.Errorf("transport: node %q did not answer a call for group %s within %v", to, g.id, g.l.config.CallTimeout)
	case <-g.done:
		err = ErrClosed
	}
	pc.forget(request)
	return nil, err
}

// connection returns the connection to a node, and waits for one if park is set.
func (g *group) connection(to raft.ServerID, park bool) (*peerConn, error) {
	if !park {
		return g.peers.connection(id.NodeID(to))
	}
	p, err := g.peers.ensure(id.NodeID(to), false)
	if err != nil {
		return nil, err
	}
	return p.await(g.done)
}
