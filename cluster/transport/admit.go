package transport

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/quorate/quorate/internal/gate"
)

// vet finds out who calls, and whether this node may talk to it.
func (m *Mux) vet(ctx context.Context, md metadata.MD) (Peer, error) {
	p, err := m.identity.check(md)
	if err == nil {
		err = m.certified(ctx, p)
	}
	return p, err
}

// connOf returns the gate's connection of a call, or nil.
func connOf(ctx context.Context) *gate.Conn {
	from, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return nil
	}
	caller, _ := from.AuthInfo.(callerInfo)
	return caller.conn
}

// peerKey is the key of the admitted peer in a call's context.
type peerKey struct{}

// admit checks the caller of a call and notes its epoch.
func (m *Mux) admit(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p, err := m.vet(ctx, md)
	if err == nil {
		err = m.noteEpoch(p)
	}
	if err != nil {
		m.log.Debug("refused a caller", "error", err)
		return nil, err
	}
	connOf(ctx).Admit()
	return context.WithValue(ctx, peerKey{}, p), nil
}

// admitting registers services whose callers are checked before anything of a request is read: it may be
// as large as the largest frame. gRPC's tap does not do: what it refuses stays in memory until the time
// that the caller has set for the call.
type admitting struct{ m *Mux }

// RegisterService implements grpc.ServiceRegistrar.
func (a admitting) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i := range own.Methods {
		m := &own.Methods[i]
		m.Handler = a.m.admitUnary(m.Handler)
	}
	a.m.server.RegisterService(&own, impl)
}

// admitUnary checks the caller before the request is read.
func (m *Mux) admitUnary(of grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		ctx, err := m.admit(ctx)
		if err != nil {
			return nil, err
		}
		return of(srv, ctx, read, nil)
	}
}

// admittedStream is a stream whose context names the peer.
type admittedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s admittedStream) Context() context.Context { return s.ctx }

// admitStream is gRPC's interceptor of streams: it runs before their first message is read.
func (m *Mux) admitStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := m.admit(s.Context())
	if err != nil {
		return err
	}
	return next(srv, admittedStream{ServerStream: s, ctx: ctx})
}

// CallerOf returns the node that made a call to Config.Calls.
func CallerOf(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}
