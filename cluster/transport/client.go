package transport

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// callConn is the connection to a peer as it is at each call.
type callConn struct {
	m    *Mux
	node id.NodeID
}

// conn returns the current connection; without one it returns Unavailable, as gRPC's own connections do.
func (c callConn) conn() (*peerConn, error) {
	pc, err := c.m.connection(c.node)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return pc, nil
}

// Invoke implements grpc.ClientConnInterface.
func (c callConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	pc, err := c.conn()
	if err != nil {
		return err
	}
	err = pc.client.Invoke(ctx, method, args, reply, opts...)
	if status.Code(err) == codes.Canceled && ctx.Err() == nil {
		// The connection was closed under the call; the caller did not give up.
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (c callConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	pc, err := c.conn()
	if err != nil {
		return nil, err
	}
	return pc.client.NewStream(ctx, desc, method, opts...)
}

// Client returns a client for calls to the peer on the shared connection. Callers may keep it: each call uses the
// current connection, and fails with Unavailable without one. Errors: ErrUnknownPeer.
func (m *Mux) Client(n id.NodeID) (nodev1.NodeClient, error) {
	p := m.lookup(n)
	if p == nil || len(p.candidates()) == 0 {
		return nil, fmt.Errorf("%w: node %q", ErrUnknownPeer, n)
	}
	return nodev1.NewNodeClient(callConn{m: m, node: n}), nil
}
