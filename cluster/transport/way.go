package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc/metadata"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// forwardBytes is how much of a connection travels in one message.
const forwardBytes = 64 << 10

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
	stream, err := nodev1.NewNodeClient(pc.via.client).Forward(metadata.AppendToOutgoingContext(life, mdWanted, string(pc.node)))
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
	pc.l.running.Go(func() {
		defer end()
		pass(theirs, func(b []byte) error { return stream.Send(&nodev1.ForwardRequest{Data: b}) },
			func() ([]byte, error) { r, err := stream.Recv(); return r.GetData(), err }, end)
	})
	return mine, nil
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
