package transport

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// peer keeps this node's own connection to one other node up. Its run goroutine owns the
// connecting; mu guards the fields below it.
type peer struct {
	l       *local
	between func(id.NodeID) []*peerConn // by which a detour may lead
	node    id.NodeID
	ctx     context.Context
	cancel  context.CancelFunc
	after   <-chan struct{} // of the peer's predecessor, removed before; nil: none
	done    chan struct{}   // closed when run ended
	kick    chan struct{}   // of capacity 1: do not wait any longer
	traffic traffic
	connect atomic.Uint64
	failure atomic.Uint64

	mu        sync.Mutex
	addresses []string  // where the peer may be, the best first; none: not known
	worked    string    // the one of them that led to the peer last; "": none yet
	trying    *peerConn // that connects by the direct way
	conn      *peerConn
	up        chan struct{} // closed when a connection came up
	parked    int
	lastErr   error
	found     *peerConn // by another way, for run to take
}

// newPeer returns a peer whose run goroutine has still to be started. It begins when after is closed, so
// that two of one node never connect at once.
func newPeer(
	l *local, between func(id.NodeID) []*peerConn, node id.NodeID, after <-chan struct{},
) *peer {
	p := &peer{
		l: l, between: between, node: node, after: after,
		done: make(chan struct{}), kick: make(chan struct{}, 1), up: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(l.ctx)
	return p
}

// kickNow ends a pause between two attempts; one kick is kept while nobody pauses.
func (p *peer) kickNow() {
	wait.Wake(p.kick)
}

// setAddresses takes the peer's addresses; changed ones are tried at once. Connections to one that is
// still among them stay.
func (p *peer) setAddresses(addresses []string) {
	p.mu.Lock()
	if slices.Equal(p.addresses, addresses) {
		p.mu.Unlock()
		return
	}
	p.addresses, p.worked = slices.Clone(addresses), ""
	var gone [2]*peerConn
	for i, pc := range []*peerConn{p.conn, p.trying} {
		if pc != nil && !slices.Contains(addresses, pc.address) {
			gone[i] = pc
		}
	}
	p.mu.Unlock()
	why := fmt.Errorf("%w: node %q is now at %s", ErrNotConnected, p.node, strings.Join(addresses, ", "))
	for _, pc := range gone {
		if pc != nil {
			pc.fail(why)
		}
	}
	p.kickNow()
}

// dropOlder ends connections to an incarnation that is over.
func (p *peer) dropOlder(epoch id.Epoch) {
	p.mu.Lock()
	pc := p.conn
	p.mu.Unlock()
	if pc != nil && pc.remote.Epoch < epoch {
		pc.fail(fmt.Errorf("%w: epoch %d of it is over, %d was seen", ErrNotConnected, pc.remote.Epoch, epoch))
	}
	p.kickNow()
}

// candidates returns where to try to connect: what led to the peer last, then the others.
func (p *peer) candidates() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.addresses)
	if i := slices.Index(all, p.worked); i > 0 {
		all = append([]string{p.worked}, slices.Delete(all, i, i+1)...)
	}
	return all
}

// beginAttempt registers an attempt to connect directly, of which there is one at a time; false: the peer has left
// its address meanwhile.
func (p *peer) beginAttempt(pc *peerConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pc.direct() {
		p.trying = pc
	}
	return slices.Contains(p.addresses, pc.address)
}

// endAttempt is called once for each beginAttempt, whether it led to a connection or not.
func (p *peer) endAttempt(pc *peerConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trying == pc {
		p.trying = nil
	}
}

// attach makes the connection the one that is used, and wakes those that wait for it. Only run calls it.
func (p *peer) attach(pc *peerConn) {
	p.connect.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.lastErr = pc, nil
	if pc.direct() && slices.Contains(p.addresses, pc.address) {
		p.worked = pc.address
	}
	close(p.up)
}

// detach is the end of attach. The callers that still hold the connection learn of it by over.
func (p *peer) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.conn.detached)
	p.conn = nil
	p.up = make(chan struct{})
}

// connection returns the connection if it is up.
func (p *peer) connection() (*peerConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.addresses) == 0 {
		return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, p.node)
	}
	if p.conn == nil || p.conn.ctx.Err() != nil {
		return nil, fmt.Errorf("%w: node %q at %s", ErrNotConnected, p.node, p.addresses[0])
	}
	return p.conn, nil
}

// await parks the caller until there is a connection. The number of those that wait is
// bounded; Config.ParkTimeout and done end the wait.
func (p *peer) await(done <-chan struct{}) (*peerConn, error) {
	if pc, err := p.connection(); err == nil {
		return pc, nil
	}
	late := time.NewTimer(p.l.config.ParkTimeout)
	defer late.Stop()
	p.mu.Lock()
	if p.parked >= p.l.config.MaxParkedCalls {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: node %q, and %d calls wait for it already", ErrNotConnected, p.node, p.l.config.MaxParkedCalls)
	}
	p.parked++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.parked--
	}()
	for {
		p.mu.Lock()
		pc, up := p.conn, p.up
		p.mu.Unlock()
		if pc != nil && pc.ctx.Err() == nil {
			return pc, nil
		}
		var over <-chan struct{} // a connection that failed and was not taken off yet
		if pc != nil {
			over, up = pc.detached, nil
		}
		select {
		case <-up:
		case <-over:
		case <-late.C:
			return nil, fmt.Errorf("%w: node %q for %v", ErrNotConnected, p.node, p.l.config.ParkTimeout)
		case <-done:
			return nil, ErrClosed
		case <-p.ctx.Done():
			return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, p.node)
		}
	}
}

// stats are read field by field, so they need not be of one moment.
func (p *peer) stats() PeerStats {
	s := PeerStats{
		Node:      p.node,
		FramesOut: p.traffic.framesOut.Load(), FramesIn: p.traffic.framesIn.Load(),
		BytesOut: p.traffic.bytesOut.Load(), BytesIn: p.traffic.bytesIn.Load(),
		Connects: p.connect.Load(), Failures: p.failure.Load(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Parked = p.parked
	if len(p.addresses) > 0 {
		s.Address = p.addresses[0]
	}
	if p.lastErr != nil {
		s.LastError = p.lastErr.Error()
	}
	if p.conn != nil {
		s.Up, s.Epoch, s.Address = p.conn.ctx.Err() == nil, p.conn.remote.Epoch, p.conn.address
		if !p.conn.direct() {
			s.Through = p.conn.via.remote.Node
		}
		s.RaftQueueBytes, s.QueueBytes = p.conn.raft.bytes(), p.conn.queue.bytes()
	}
	return s
}

// takeFound returns the connection that was found while the last one was up.
func (p *peer) takeFound() *peerConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	pc := p.found
	p.found = nil
	return pc
}
