package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
)

// peer keeps this node's own links to one other node up. Its run goroutine owns the
// connecting; mu guards the fields below it.
type peer struct {
	m       *Mux
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
	addresses []string // where the peer may be, the best first; none: not known
	worked    string   // the one of them that led to the peer last; "": none yet
	trying    *session // that connects by the direct way
	sess      *session
	up        chan struct{} // closed when a session came up
	parked    int
	lastErr   error
	found     *session // by another way, for run to take
}

func newPeer(m *Mux, node id.NodeID, after <-chan struct{}) *peer {
	p := &peer{
		m: m, node: node, after: after,
		done: make(chan struct{}), kick: make(chan struct{}, 1), up: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(m.ctx)
	return p
}

// run connects, serves the links until they break, and connects again.
func (p *peer) run() {
	defer close(p.done)
	if p.after != nil {
		<-p.after
	}
	defer p.dropFound()
	var wait time.Duration
	var told string
	var failing time.Time // since when; zero: the last session was opened
	for p.ctx.Err() == nil {
		sess, err := p.dial(failing)
		if err == nil {
			failing = time.Time{}
			told, wait = "", p.m.config.RetryMin
			p.attach(sess)
			p.tellUp(sess)
			err = sess.serve()
			p.detach()
			if p.ctx.Err() == nil {
				p.m.log.Warn("link went down", "peer", p.node, "epoch", sess.remote.Epoch, "error", err)
			}
		} else if p.ctx.Err() == nil && !errors.Is(err, ErrUnknownPeer) {
			wait = p.failed(err, wait, &told)
			if failing.IsZero() {
				failing = time.Now()
			}
		}
		p.pause(wait, errors.Is(err, ErrUnknownPeer))
	}
}

// dial returns the next session: the one that was found while the last one was up, or a new
// one. Opening has failed since a time, unless that is zero.
func (p *peer) dial(failing time.Time) (*session, error) {
	if s := p.takeFound(); s != nil {
		return s, nil
	}
	var since time.Duration
	if !failing.IsZero() {
		since = time.Since(failing)
	}
	return p.dialEither(since)
}

// dropFound closes what nobody takes any more.
func (p *peer) dropFound() {
	if s := p.takeFound(); s != nil {
		s.drop()
	}
}

func (p *peer) tellUp(s *session) {
	if s.direct() {
		p.m.log.Info("link is up", "peer", p.node, "epoch", s.remote.Epoch, "address", s.address)
		return
	}
	p.m.log.Warn("link is up by a detour: this node does not reach the peer itself, another one passes the link on; look at the network between the two",
		"peer", p.node, "epoch", s.remote.Epoch, "address", s.address, "through", s.via.remote.Node)
}

// failed notes an attempt that did not succeed, logs a new reason once, and returns
// how long to wait.
func (p *peer) failed(err error, wait time.Duration, told *string) time.Duration {
	p.failure.Add(1)
	p.mu.Lock()
	p.lastErr = err
	p.mu.Unlock()
	reason := "unreachable"
	if refused(err) {
		reason = err.Error()
	}
	if *told != reason {
		*told = reason
		if refused(err) {
			p.m.log.Error("peer and this node do not accept each other", "peer", p.node, "error", err)
		} else {
			p.m.log.Warn("cannot reach the peer, will go on trying", "peer", p.node, "error", err)
		}
	}
	if refused(err) {
		return p.m.config.RetryRefuse
	}
	return min(max(2*wait, p.m.config.RetryMin), p.m.config.RetryMax)
}

// pause waits up to a third longer or shorter than said, or for a kick only.
func (p *peer) pause(wait time.Duration, forKick bool) {
	var due <-chan time.Time
	if !forKick {
		t := time.NewTimer(wait*2/3 + rand.N(wait*2/3+1)) //nolint:gosec // spreads tries
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-p.kick:
	case <-p.ctx.Done():
	}
}

func (p *peer) kickNow() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// moved takes the peer's addresses; changed ones are tried at once. Links to one that is
// still among them stay.
func (p *peer) moved(addresses []string) {
	p.mu.Lock()
	if slices.Equal(p.addresses, addresses) {
		p.mu.Unlock()
		return
	}
	p.addresses, p.worked = slices.Clone(addresses), ""
	var gone [2]*session
	for i, s := range []*session{p.sess, p.trying} {
		if s != nil && !slices.Contains(addresses, s.address) {
			gone[i] = s
		}
	}
	p.mu.Unlock()
	why := fmt.Errorf("%w: node %q is now at %s", ErrLinkDown, p.node, strings.Join(addresses, ", "))
	for _, s := range gone {
		if s != nil {
			s.fail(why)
		}
	}
	p.kickNow()
}

// dropOlder ends links to an incarnation that is over.
func (p *peer) dropOlder(epoch id.Epoch) {
	p.mu.Lock()
	sess := p.sess
	p.mu.Unlock()
	if sess != nil && sess.remote.Epoch < epoch {
		sess.fail(fmt.Errorf("%w: epoch %d of it is over, %d was seen", ErrLinkDown, sess.remote.Epoch, epoch))
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

// tries notes the session that connects by the direct way, of which there is one at a time;
// false: the peer has left its address meanwhile.
func (p *peer) tries(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.direct() {
		p.trying = s
	}
	return slices.Contains(p.addresses, s.address)
}

func (p *peer) tried(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trying == s {
		p.trying = nil
	}
}

func (p *peer) attach(s *session) {
	p.connect.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sess, p.lastErr = s, nil
	if s.direct() && slices.Contains(p.addresses, s.address) {
		p.worked = s.address
	}
	close(p.up)
}

func (p *peer) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.sess.over)
	p.sess = nil
	p.up = make(chan struct{})
}

// session returns the links if they are up.
func (p *peer) session() (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.addresses) == 0 {
		return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, p.node)
	}
	if p.sess == nil || p.sess.ctx.Err() != nil {
		return nil, fmt.Errorf("%w: node %q at %s", ErrLinkDown, p.node, p.addresses[0])
	}
	return p.sess, nil
}

// await parks the caller until the links are up. The number of those that wait is
// bounded; Config.ParkTimeout and done end the wait.
func (p *peer) await(done <-chan struct{}) (*session, error) {
	if s, err := p.session(); err == nil {
		return s, nil
	}
	late := time.NewTimer(p.m.config.ParkTimeout)
	defer late.Stop()
	p.mu.Lock()
	if p.parked >= p.m.config.MaxParkedCalls {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: node %q, and %d calls wait for it already", ErrLinkDown, p.node, p.m.config.MaxParkedCalls)
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
		sess, up := p.sess, p.up
		p.mu.Unlock()
		if sess != nil && sess.ctx.Err() == nil {
			return sess, nil
		}
		var over <-chan struct{} // a session that failed and was not taken off yet
		if sess != nil {
			over, up = sess.over, nil
		}
		select {
		case <-up:
		case <-over:
		case <-late.C:
			return nil, fmt.Errorf("%w: node %q for %v", ErrLinkDown, p.node, p.m.config.ParkTimeout)
		case <-done:
			return nil, ErrClosed
		case <-p.ctx.Done():
			return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, p.node)
		}
	}
}

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
	if p.sess != nil {
		s.Up, s.Epoch, s.Address = p.sess.ctx.Err() == nil, p.sess.remote.Epoch, p.sess.address
		if !p.sess.direct() {
			s.Through = p.sess.via.remote.Node
		}
		s.RaftQueueBytes, s.QueueBytes = p.sess.raft.bytes(), p.sess.queue.bytes()
	}
	return s
}
