package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// open connects to where the peer is now, directly or by way of another. Its addresses are
// tried one after the other: two connections at once would take the place of each other. ctx
// bounds the opening alone.
func (p *peer) open(ctx context.Context, via *peerConn) (*peerConn, error) {
	all := p.candidates()
	switch {
	case len(all) == 0:
		return nil, ErrUnknownPeer
	case via != nil: // that knows the way
		all = all[:1]
	}
	c := &p.l.config
	var failed failedAll
	for i, address := range all {
		patient := c.DialTimeout
		if i < len(all)-1 {
			patient = c.FallbackAfter
		}
		pc, err := p.openAt(ctx, address, patient, via)
		if err == nil {
			return pc, nil
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

// openAt connects to an address of the peer, or by way of another, and opens all streams.
func (p *peer) openAt(ctx context.Context, address string, patient time.Duration, via *peerConn) (*peerConn, error) {
	c := &p.l.config
	pc := &peerConn{
		l: p.l, node: p.node, traffic: &p.traffic, pulse: p.l.pulses.Of(p.node), address: address, patient: patient, via: via, astray: make(chan struct{}, 1), detached: make(chan struct{}),
		heartbeats: newSendQueue(c), raft: newSendQueue(c), queue: newSendQueue(c),
		calls: map[uint64]waiter{},
	}
	pc.ctx, pc.cancel = context.WithCancelCause(p.ctx)
	pc.giveUp = func(why error) {
		pc.fail(why)
		p.kickNow() // packets pass just now
	}
	if !p.beginAttempt(pc) {
		pc.cancel(nil)
		return nil, fmt.Errorf("transport: node %q is at %s no longer", p.node, address)
	}
	defer p.endAttempt(pc)
	given := context.AfterFunc(ctx, func() { pc.cancel(context.Cause(ctx)) })
	conn, err := grpc.NewClient("passthrough:///"+address, pc.dialOptions()...)
	if err != nil {
		pc.cancel(err)
		return nil, fmt.Errorf("transport: address %q of node %q: %w", address, p.node, err)
	}
	pc.client = conn
	late := time.AfterFunc(c.DialTimeout, func() {
		pc.cancel(fmt.Errorf("transport: node %q at %s did not answer within %v", p.node, address, c.DialTimeout))
	})
	err = pc.openStreams()
	if err == nil && pc.pulse.Asks() {
		pc.heartbeatLine, err = pc.openHeartbeats()
	}
	pc.began = time.Now()
	if lost := !late.Stop() || !given(); lost && err == nil {
		err = context.Cause(pc.ctx)
	}
	if err != nil {
		if cause := context.Cause(pc.ctx); cause != nil {
			err = cause
		}
		pc.cancel(err)
		if pc.deserted.Load() {
			err = fmt.Errorf("transport: node %q at %s: %w", p.node, address, syscall.ECONNREFUSED)
		}
		return nil, errors.Join(err, conn.Close())
	}
	return pc, nil
}

// dialOptions leaves keepalive out, which gRPC does not allow often enough, and all retries: whoever calls
// decides on them.
func (pc *peerConn) dialOptions() []grpc.DialOption {
	m := pc.l
	c := &m.config
	return []grpc.DialOption{
		grpc.WithTransportCredentials(pc.credentials()),
		grpc.WithPerRPCCredentials(m.identity),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pc.dialLine(ctx) }),
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
		experimental.WithBufferPool(m.memory),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
	}
}

// openStreams opens the streams and checks who is at the other end.
func (pc *peerConn) openStreams() error {
	client := nodev1.NewNodeClient(pc.client)
	for _, l := range []struct {
		class  class
		stream *clientStream
	}{{classControl, &pc.controlStream}, {classRaft, &pc.raftStream}, {classQueue, &pc.queueStream}} {
		stream, err := client.Link(metadata.AppendToOutgoingContext(pc.ctx, mdStream, string(l.class), mdWanted, string(pc.node)))
		if err != nil {
			return fmt.Errorf("transport: node %q at %s: %w", pc.node, pc.address, err)
		}
		header, err := stream.Header()
		if err == nil && header == nil {
			_, err = stream.Recv()
		}
		if m := pc.l; status.Code(err) == refusedStore && m.config.Refused != nil {
			m.config.Refused(pc.node, status.Convert(err).Message())
		}
		if err != nil {
			return fmt.Errorf("transport: node %q at %s: %w", pc.node, pc.address, err)
		}
		remote, err := pc.l.identity.check(header)
		if err != nil {
			return err
		}
		if remote.Node != pc.node {
			return fmt.Errorf("transport: node %q answers at %s, where node %q was expected", remote.Node, pc.address, pc.node)
		}
		if err := pc.l.noteEpoch(remote); err != nil {
			return err
		}
		if pc.remote.Node == "" {
			release, err := pc.l.processes.hold(remote, first(header, mdProcess))
			if err != nil {
				return err
			}
			context.AfterFunc(pc.ctx, release)
		}
		pc.remote, pc.reads, *l.stream = remote, readsOf(header), stream
	}
	return nil
}
