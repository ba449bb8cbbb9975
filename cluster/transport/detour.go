package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A detour is a way to a peer through a third node, for as long as there is no direct one.
// The third node passes bytes on between a stream, which the one end opened to it, and a
// connection, which it opens to the other. So a peer connection on a detour is one like any other:
// both ends see who is there by the same handshake, with the same TLS, and the node between
// them can read nothing that TLS protects. It goes through one node and no further, because
// that takes the direct way alone.

// maxDetours bounds the connections that a node passes on for others at the same time. Each
// peer connection needs one, and one more for its heartbeats.
const maxDetours = 64

// forwardBytes is how much of a connection travels in one message.
const forwardBytes = 64 << 10

// direct reports whether the connection leads to the peer.
func (pc *peerConn) direct() bool { return pc.via == nil }

// dialConn opens a network connection, or a pipe on a detour, to where the peer connection leads.
func (pc *peerConn) dialConn(ctx context.Context) (net.Conn, error) {
	if pc.via != nil {
		return pc.forwarded(ctx)
	}
	conn, err := (&net.Dialer{Timeout: pc.patient}).DialContext(ctx, "tcp", pc.address)
	pc.deserted.Store(errors.Is(err, syscall.ECONNREFUSED))
	return conn, err
}

// forwarded opens a pipe to the peer through the third node. It ends with the peer connection.
func (pc *peerConn) forwarded(ctx context.Context) (net.Conn, error) {
	life, end := context.WithCancel(pc.ctx)
	stop := context.AfterFunc(ctx, end)
	stream, err := nodev1.NewNodeClient(pc.via.client).Forward(metadata.AppendToOutgoingContext(life, mdWanted, string(pc.p.node)))
	var header metadata.MD
	if err == nil {
		header, err = stream.Header()
	}
	if err == nil && header == nil {
		_, err = stream.Recv()
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("through node %q: %w", pc.via.remote.Node, err)
	}
	mine, theirs := net.Pipe()
	pc.p.m.running.Go(func() {
		defer end()
		pass(theirs, func(b []byte) error { return stream.Send(&nodev1.ForwardRequest{Data: b}) },
			func() ([]byte, error) { r, err := stream.Recv(); return r.GetData(), err }, end)
	})
	return mine, nil
}

// Forward passes on what a peer says to another one that it cannot reach itself.
func (s service) Forward(stream nodev1.Node_ForwardServer) error {
	from, _ := CallerOf(stream.Context())
	md, _ := metadata.FromIncomingContext(stream.Context())
	to := id.NodeID(first(md, mdWanted))
	conn, err := s.m.openFor(stream.Context(), from.Node, to)
	if err != nil {
		return err
	}
	defer s.m.detours.Add(-1)
	ctx, end := context.WithCancel(stream.Context())
	defer end()
	defer context.AfterFunc(s.m.ctx, end)()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := stream.SendHeader(metadata.New(s.m.identity.values())); err != nil {
		return err
	}
	// The handler returns when either way has ended, which ends Recv.
	go pass(conn, func(b []byte) error { return stream.Send(&nodev1.ForwardResponse{Data: b}) },
		func() ([]byte, error) { r, err := stream.Recv(); return r.GetData(), err }, end)
	<-ctx.Done()
	return nil
}

// openFor opens a connection to a node for a peer, and counts it. It refuses at once where
// this node has no direct way there itself.
func (m *Mux) openFor(ctx context.Context, from, to id.NodeID) (net.Conn, error) {
	there, err := m.connection(to)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if !there.direct() {
		return nil, status.Errorf(codes.Unavailable, "node %q reaches node %q by a detour itself", m.config.Node, to)
	}
	if m.detours.Add(1) > maxDetours {
		m.detours.Add(-1)
		return nil, status.Errorf(codes.ResourceExhausted, "node %q passes on %d connections for others already, which is the limit", m.config.Node, maxDetours)
	}
	conn, err := (&net.Dialer{Timeout: m.config.DialTimeout}).DialContext(ctx, "tcp", there.address)
	if err != nil {
		m.detours.Add(-1)
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	m.log.Info("passing on a link of two nodes that do not reach one another", "from", from, "to", to)
	return conn, nil
}

// pass moves bytes both ways until either way ends, then ends both.
func pass(conn net.Conn, send func([]byte) error, receive func() ([]byte, error), end func()) {
	var out sync.WaitGroup
	out.Go(func() {
		defer end()
		b := make([]byte, forwardBytes)
		for {
			n, err := conn.Read(b)
			if n > 0 && send(b[:n]) != nil || err != nil {
				return
			}
		}
	})
	for {
		b, err := receive()
		if err == nil {
			_, err = conn.Write(b)
		}
		if err != nil {
			break
		}
	}
	end()
	_ = conn.Close() // whoever reads or writes learns of it
	out.Wait()
}

// dialDetour opens a connection to the peer through the first node that has a way there.
func (p *peer) dialDetour(ctx context.Context) (*peerConn, error) {
	err := error(nil)
	for _, via := range p.m.between(p.node) {
		pc, failed := p.open(ctx, via)
		if failed == nil || ctx.Err() != nil {
			return pc, failed
		}
		err = errors.Join(err, failed)
	}
	if err == nil {
		err = fmt.Errorf("%w: node %q, and no other node is connected that could pass a link on", ErrNotConnected, p.node)
	}
	return nil, err
}

// between returns the connections by which a detour to a node may lead.
func (m *Mux) between(to id.NodeID) []*peerConn {
	m.mu.Lock()
	peers := make([]*peer, 0, len(m.peers))
	for n, p := range m.peers {
		if n != to {
			peers = append(peers, p)
		}
	}
	m.mu.Unlock()
	var ways []*peerConn
	for _, p := range peers {
		if pc, err := p.connection(); err == nil && pc.direct() {
			ways = append(ways, pc)
		}
	}
	slices.SortFunc(ways, func(a, b *peerConn) int { return int(a.unanswered() - b.unanswered()) })
	return ways
}

// dialEither opens a connection: by the direct way, or by a detour if that fails, has failed for
// long enough, or does not lead there in time. Who answers but does not agree is no matter of
// the way.
func (p *peer) dialEither(failing time.Duration) (*peerConn, error) {
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	type attempt struct {
		s      *peerConn
		err    error
		direct bool
	}
	done, tried := make(chan attempt, 2), 1
	go func() {
		pc, err := p.open(ctx, nil)
		done <- attempt{pc, err, true}
	}()
	detour := func() {
		tried++
		go func() {
			pc, err := p.dialDetour(ctx)
			done <- attempt{pc, err, false}
		}()
	}
	late := time.NewTimer(p.m.config.DetourAfter)
	defer late.Stop()
	var fault error
	for ended := 0; ended < tried; {
		var a attempt
		select {
		case <-late.C:
			detour()
			continue
		case a = <-done:
			ended++
		}
		if a.err != nil && a.direct { // the way that is to be mended
			fault = a.err
			if wanted := failing >= p.m.config.DetourAfter && !refused(a.err); wanted && tried == 1 {
				late.Stop()
				detour()
			}
		}
		if a.err == nil || refused(fault) {
			stop()
			for ; ended < tried; ended++ {
				if other := <-done; other.s != nil {
					other.s.drop()
				}
			}
			return a.s, a.err
		}
		fault = cmp.Or(fault, a.err)
	}
	return nil, fault
}

// drop ends a connection that is not wanted and does not serve.
func (pc *peerConn) drop() {
	pc.cancel(fmt.Errorf("%w: node %q has another way", ErrNotConnected, pc.p.node))
	_ = pc.closeClient() // it never served
}

// seek looks for another way while this one is silent, or a detour, and ends the connection for it.
func (pc *peerConn) seek() error {
	look := make(<-chan time.Time)
	if !pc.direct() {
		t := time.NewTicker(pc.p.m.config.DetourBack)
		defer t.Stop()
		look = t.C
	}
	for {
		var found *peerConn
		var err error
		select {
		case <-pc.astray:
			found, err = pc.p.dialDetour(pc.ctx)
		case <-look:
			found, err = pc.p.open(pc.ctx, nil)
		case <-pc.ctx.Done():
			return context.Cause(pc.ctx)
		}
		switch {
		case err != nil:
			continue
		case found.direct():
			err = fmt.Errorf("%w: node %q can be reached directly again", ErrNotConnected, pc.p.node)
		case !pc.lostWay():
			found.drop() // it was silent for a moment
			continue
		default:
			err = fmt.Errorf("%w: node %q is silent, but another node reaches it", ErrNotConnected, pc.p.node)
		}
		pc.p.mu.Lock()
		pc.p.found = found
		pc.p.mu.Unlock()
		return err
	}
}

// lostWay reports whether the peer has been silent on a direct way for long enough to look for
// another one.
func (pc *peerConn) lostWay() bool {
	p := pc.p.m.pulse(pc.p.node)
	return pc.direct() && p.judges(pc) && p.unanswered(time.Now(), pc.began) >= pc.p.m.config.DetourAfter+p.leniency()
}

// takeFound returns the connection that was found while the last one was up.
func (p *peer) takeFound() *peerConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	pc := p.found
	p.found = nil
	return pc
}
