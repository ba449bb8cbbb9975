package transport

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
)

// peerConn is the connection to a peer as it is at each call.
type peerConn struct {
	m    *Mux
	node id.NodeID
}

func (c peerConn) conn() (*session, error) {
	s, err := c.m.session(c.node)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return s, nil
}

// Invoke implements grpc.ClientConnInterface.
func (c peerConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	s, err := c.conn()
	if err != nil {
		return err
	}
	err = s.conn.Invoke(ctx, method, args, reply, opts...)
	if status.Code(err) == codes.Canceled && ctx.Err() == nil {
		// The connection was closed under the call; the caller did not give up.
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (c peerConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := c.conn()
	if err != nil {
		return nil, err
	}
	return s.conn.NewStream(ctx, desc, method, opts...)
}
