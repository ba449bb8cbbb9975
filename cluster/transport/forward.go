package transport

import (
	"context"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// maxDetours bounds the connections that a node passes on for others at the same time. Each
// peer connection needs one, and one more for its heartbeats.
const maxDetours = 64

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
	defer s.m.watch(to, conn)()
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
	conn, err := m.dial(ctx, there.address, m.config.DialTimeout)
	if err != nil {
		m.detours.Add(-1)
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	m.log.Info("passing on a link of two nodes that do not reach one another", "from", from, "to", to)
	return conn, nil
}
