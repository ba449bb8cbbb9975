package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/internal/gate"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// forwardBytes is how much of a connection travels in one message.
const forwardBytes = 64 << 10

// dialConn opens a network connection, or a pipe on a detour, to where the peer connection leads.
func (pc *peerConn) dialConn(ctx context.Context) (net.Conn, error) {
	if pc.via != nil {
		return pc.forwarded(ctx)
	}
	conn, err := pc.l.dial(ctx, pc.address, pc.patient)
	pc.deserted.Store(errors.Is(err, syscall.ECONNREFUSED))
	return conn, err
}

// dialLine is dialConn for the connection of the streams, which is given up when it is stuck. On a detour the third node
// does that.
func (pc *peerConn) dialLine(ctx context.Context) (net.Conn, error) {
	conn, err := pc.dialConn(ctx)
	if tcp, is := conn.(*net.TCPConn); is && err == nil {
		pc.conn.Store(tcp)
		context.AfterFunc(pc.ctx, pc.pulse.Lines.Add(&pulse.Line{Conn: tcp, GiveUp: func(why error) { pc.giveUp(stuckErr(why)) }, Passed: pc.probe}))
	}
	return conn, err
}

// dial opens a network connection, and bounds how long what it sends may stay unacknowledged.
func (l *local) dial(ctx context.Context, address string, patient time.Duration) (net.Conn, error) {
	conn, err := connect(ctx, patient, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
	if err != nil {
		return nil, fmt.Errorf("transport: connecting to %s: %w", address, err)
	}
	if tcp, is := conn.(*net.TCPConn); is {
		pulse.RepeatEvenly(tcp)
		if err := gate.AcknowledgeWithin(tcp, l.config.acknowledgeWithin()); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
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
