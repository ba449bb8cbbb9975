package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// open connects to where the peer is now, directly or by way of another. Its addresses are
// tried one after the other: two sessions at once would take the place of each other. ctx
// bounds the opening alone.
func (p *peer) open(ctx context.Context, via *session) (*session, error) {
	all := p.candidates()
	switch {
	case len(all) == 0:
		return nil, ErrUnknownPeer
	case via != nil: // that knows the way
		all = all[:1]
	}
	c := &p.m.config
	var failed failedAll
	for i, address := range all {
		patient := c.DialTimeout
		if i < len(all)-1 {
			patient = c.FallbackAfter
		}
		s, err := p.openAt(ctx, address, patient, via)
		if err == nil {
			return s, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil || p.ctx.Err() != nil || !slices.Contains(p.candidates(), address) {
			break // what comes next is old as well
		}
	}
	if via == nil && len(failed) == len(all) && failed.ended() && c.Ended != nil {
		c.Ended(p.node)
	}
	if len(failed) == 1 {
		return nil, failed[0]
	}
	return nil, failed
}

// failedAll is why none of several addresses led to a peer.
type failedAll []error

// Error implements error.
func (f failedAll) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// ended reports that nothing listens at any of the addresses.
func (f failedAll) ended() bool {
	for _, err := range f {
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return true
}

// openAt connects to an address of the peer, or by way of another, and opens all streams.
func (p *peer) openAt(ctx context.Context, address string, patient time.Duration, via *session) (*session, error) {
	c := &p.m.config
	s := &session{
		p: p, address: address, patient: patient, via: via, astray: make(chan struct{}, 1), over: make(chan struct{}),
		heartbeats: newSendQueue(c), raft: newSendQueue(c), queue: newSendQueue(c),
		calls: map[uint64]waiter{},
	}
	s.ctx, s.cancel = context.WithCancelCause(p.ctx)
	if !p.tries(s) {
		s.cancel(nil)
		return nil, fmt.Errorf("transport: node %q is at %s no longer", p.node, address)
	}
	defer p.tried(s)
	given := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	conn, err := grpc.NewClient("passthrough:///"+address, s.dialOptions()...)
	if err != nil {
		s.cancel(err)
		return nil, fmt.Errorf("transport: address %q of node %q: %w", address, p.node, err)
	}
	s.conn = conn
	late := time.AfterFunc(c.DialTimeout, func() {
		s.cancel(fmt.Errorf("transport: node %q at %s did not answer within %v", p.node, address, c.DialTimeout))
	})
	err = s.openStreams()
	if err == nil && p.m.pulse(p.node).asks {
		s.line, err = s.openHeartbeats()
	}
	s.began = time.Now()
	if lost := !late.Stop() || !given(); lost && err == nil {
		err = context.Cause(s.ctx)
	}
	if err != nil {
		if cause := context.Cause(s.ctx); cause != nil {
			err = cause
		}
		s.cancel(err)
		if s.deserted.Load() {
			err = fmt.Errorf("transport: node %q at %s: %w", p.node, address, syscall.ECONNREFUSED)
		}
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

func (s *session) dialOptions() []grpc.DialOption {
	m := s.p.m
	c := &m.config
	return []grpc.DialOption{
		grpc.WithTransportCredentials(s.credentials()),
		grpc.WithPerRPCCredentials(m.identity),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.dialConn(ctx) }),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: c.RetryMin, Multiplier: 2, Jitter: 0.3, MaxDelay: c.RetryMax},
			MinConnectTimeout: c.DialTimeout,
		}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(c.MaxFrameBytes+frameOverheadBytes),
			grpc.MaxCallSendMsgSize(c.MaxFrameBytes+frameOverheadBytes),
			grpc.ForceCodecV2(m.codec),
		),
		grpc.WithInitialWindowSize(streamWindowBytes),
		grpc.WithInitialConnWindowSize(connWindowBytes),
		grpc.WithReadBufferSize(socketBufferBytes),
		grpc.WithWriteBufferSize(socketBufferBytes),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
	}
}

// openStreams opens the streams and checks who is at the other end.
func (s *session) openStreams() error {
	client := nodev1.NewNodeClient(s.conn)
	for _, l := range []struct {
		class  class
		stream *linkStream
	}{{classControl, &s.controlStream}, {classRaft, &s.raftStream}, {classQueue, &s.queueStream}} {
		stream, err := client.Link(metadata.AppendToOutgoingContext(s.ctx, mdLink, string(l.class), mdWanted, string(s.p.node)))
		if err != nil {
			return fmt.Errorf("transport: node %q at %s: %w", s.p.node, s.address, err)
		}
		header, err := stream.Header()
		if err == nil && header == nil {
			_, err = stream.Recv()
		}
		if m := s.p.m; status.Code(err) == refusedStore && m.config.Refused != nil {
			m.config.Refused(s.p.node, status.Convert(err).Message())
		}
		if err != nil {
			return fmt.Errorf("transport: node %q at %s: %w", s.p.node, s.address, err)
		}
		remote, err := s.p.m.identity.check(header)
		if err != nil {
			return err
		}
		if remote.Node != s.p.node {
			return fmt.Errorf("transport: node %q answers at %s, where node %q was expected", remote.Node, s.address, s.p.node)
		}
		if err := s.p.m.noteEpoch(remote); err != nil {
			return err
		}
		if s.remote.Node == "" {
			release, err := s.p.m.processes.hold(remote, first(header, mdProcess))
			if err != nil {
				return err
			}
			context.AfterFunc(s.ctx, release)
		}
		s.remote, s.reads, *l.stream = remote, readsOf(header), stream
	}
	return nil
}
