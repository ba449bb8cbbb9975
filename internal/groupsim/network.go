package groupsim

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// leastCall is how long a call or an answer takes at least, so that a repeated call moves the clock.
	leastCall = 100 * time.Microsecond
	// How long it takes at most, in networks of three kinds.
	quickCall = 2 * time.Millisecond
	slowCall  = 25 * time.Millisecond
	awfulCall = 120 * time.Millisecond
	// callTime is how long a call takes until its caller gives it up; one to a member that is off waits for it meanwhile.
	callTime = 700 * time.Millisecond
	// How often, of a hundred times, the power is cut when a member has voted, and when it has answered for the first
	// entries of a term, and how long it is off at most.
	cutAtVotes   = 30
	cutAtEntries = 20
	shortlyOff   = 40 * time.Millisecond
)

var (
	errClosed = errors.New("groupsim: the member is closed")
	errGone   = errors.New("groupsim: the peer is gone")
	errLate   = errors.New("groupsim: no answer in time")
	errNone   = errors.New("groupsim: there are no snapshots")
)

// transport is how one life of a member calls the others, and is called. It implements raft.Transport.
type transport struct {
	node    *node
	start   start
	rpcs    chan raft.RPC
	handler atomic.Pointer[func(raft.RPC)]
	closed  chan struct{}
	closing sync.Once
	off     bool // the power is; guarded by the run's lock
}

func newTransport(n *node, s start) *transport {
	return &transport{node: n, start: s, rpcs: make(chan raft.RPC), closed: make(chan struct{})}
}

// change lets waiting calls check again; the run's lock is held.
func (r *run) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// travel takes the time of the way from one node to another, while the link is blocked or the other one's power is off
// too, and returns where the other one is reached.
func (t *transport) travel(from, to *node, limit <-chan time.Time) (*transport, error) {
	r := t.node.run
	<-time.After(r.dice.between(leastCall, time.Duration(r.slow.Load())))
	for {
		r.mu.Lock()
		at, blocked, changed := to.at, r.blocked[[2]*node{from, to}], r.changed
		r.mu.Unlock()
		if at != nil && !blocked {
			return at, nil
		}
		select {
		case <-changed:
		case <-t.closed:
			return nil, errClosed
		case <-limit:
			return nil, errLate
		}
	}
}

// call hands a member a call and returns its answer.
func (t *transport) call(to raft.ServerID, command any) (any, error) {
	limit := time.NewTimer(callTime)
	defer limit.Stop()
	peer := t.node.run.node(to)
	if peer == nil {
		return nil, fmt.Errorf("groupsim: there is no member %s", to)
	}
	if err := t.leave(command); err != nil {
		return nil, err
	}
	at, err := t.travel(t.node, peer, limit.C)
	if err != nil {
		return nil, err
	}
	answers := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: command, RespChan: answers}
	if h := at.handler.Load(); h != nil && heartbeat(command) {
		(*h)(rpc)
	} else {
		select {
		case at.rpcs <- rpc:
		case <-at.closed:
			return nil, errGone
		case <-t.closed:
			return nil, errClosed
		case <-limit.C:
			return nil, errLate
		}
	}
	var answer raft.RPCResponse
	select {
	case answer = <-answers:
	case <-at.closed:
		return nil, errGone
	case <-t.closed:
		return nil, errClosed
	case <-limit.C:
		return nil, errLate
	}
	if answer.Error != nil {
		return nil, answer.Error
	}
	if err := at.answer(t.node, command, answer.Response); err != nil {
		return nil, err
	}
	back, err := t.travel(peer, t.node, limit.C)
	if err == nil && back != t {
		err = errClosed
	}
	return answer.Response, err
}

// heartbeat reports whether a call is one that a transport hands to raft beside all others.
func heartbeat(command any) bool {
	a, is := command.(*raft.AppendEntriesRequest)
	return is && len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && a.LeaderCommitIndex == 0
}

// leave records what a call reveals about its member; nothing leaves a member whose power is off.
func (t *transport) leave(command any) error {
	r := t.node.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.off {
		return errClosed
	}
	switch c := command.(type) {
	case *raft.RequestVoteRequest:
		r.rules.stands(t.start, c.Term)
	case *raft.AppendEntriesRequest:
		r.rules.leads(t.start, c.Term)
	}
	return nil
}

// answer records what an answer reveals about its member, which may lose its power after that.
func (t *transport) answer(to *node, command, response any) error {
	r := t.node.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.off {
		return errGone
	}
	switch c := command.(type) {
	case *raft.RequestVoteRequest:
		if v, is := response.(*raft.RequestVoteResponse); is && v.Granted {
			r.rules.voted(t.start, to.id, c.Term)
			if r.cutAfter(t, cutAtVotes) {
				r.result.AtVotes++
			}
		}
	case *raft.AppendEntriesRequest:
		a, is := response.(*raft.AppendEntriesResponse)
		if is && a.Success && len(c.Entries) > 0 && r.rules.answered(t.start, c.Term) && r.cutAfter(t, cutAtEntries) {
			r.result.AtEntries++
		}
	}
	return nil
}

// cutAfter cuts the power after what is leaving a member, in so many cases of a hundred. The lock is held.
func (r *run) cutAfter(t *transport, percent int) bool {
	if r.calm || !r.dice.hit(percent) {
		return false
	}
	loss, down := r.dice.loss(), r.dice.between(0, shortlyOff)
	r.loads.Go(func() { t.node.off(t, loss, down) })
	return true
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpcs }

// LocalAddr implements raft.Transport.
func (t *transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.node.id) }

// EncodePeer implements raft.Transport.
func (t *transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer implements raft.Transport.
func (t *transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (t *transport) SetHeartbeatHandler(h func(raft.RPC)) { t.handler.Store(&h) }

// AppendEntriesPipeline implements raft.Transport. There is no pipeline: each call is answered before the next.
func (t *transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(to raft.ServerID, _ raft.ServerAddress, c *raft.AppendEntriesRequest, out *raft.AppendEntriesResponse) error {
	return into(out)(t.call(to, c))
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(to raft.ServerID, _ raft.ServerAddress, c *raft.RequestVoteRequest, out *raft.RequestVoteResponse) error {
	return into(out)(t.call(to, c))
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(to raft.ServerID, _ raft.ServerAddress, c *raft.RequestPreVoteRequest, out *raft.RequestPreVoteResponse) error {
	return into(out)(t.call(to, c))
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(to raft.ServerID, _ raft.ServerAddress, c *raft.TimeoutNowRequest, out *raft.TimeoutNowResponse) error {
	return into(out)(t.call(to, c))
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(raft.ServerID, raft.ServerAddress, *raft.InstallSnapshotRequest, *raft.InstallSnapshotResponse, io.Reader) error {
	return errNone
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.closing.Do(func() { close(t.closed) })
	return nil
}

// into returns a function that stores an answer where raft wants it.
func into[A any](out *A) func(any, error) error {
	return func(answer any, err error) error {
		if err != nil {
			return err
		}
		a, is := answer.(*A)
		if !is {
			return fmt.Errorf("groupsim: the answer is a %T", answer)
		}
		*out = *a
		return nil
	}
}
