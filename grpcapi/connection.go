package grpcapi

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// connectionHeader is the metadata that names the connection which a call comes by.
const connectionHeader = "quorate-connection"

// counted has every client connection known to the broker, from its handshake until it is
// closed. gRPC's stats would tell as well, at the cost of an event per message.
type counted struct {
	credentials.TransportCredentials
	b *broker.Broker
}

// countedInfo is what the handshake has found out, with the connection.
type countedInfo struct {
	credentials.AuthInfo
	c *broker.Connection
}

// countedConn ends the broker's connection with the client's.
type countedConn struct {
	net.Conn
	once sync.Once
	c    *broker.Connection

	received, sent atomic.Uint64 // bytes
}

// Read counts what comes.
func (x *countedConn) Read(b []byte) (int, error) {
	n, err := x.Conn.Read(b)
	x.received.Add(uint64(n)) //nolint:gosec // not negative
	return n, err
}

// Write counts what goes.
func (x *countedConn) Write(b []byte) (int, error) {
	n, err := x.Conn.Write(b)
	x.sent.Add(uint64(n)) //nolint:gosec // not negative
	return n, err
}

// show returns what operators are told.
func (x *countedConn) show() broker.ConnectionInfo {
	peer := x.RemoteAddr().String()
	_, secure := x.Conn.(*tls.Conn)
	return broker.ConnectionInfo{
		Name: peer + " -> " + x.LocalAddr().String(), Protocol: "gRPC", TLS: secure, Peer: peer, State: broker.ConnectionRunning,
		Received: x.received.Load(), Sent: x.sent.Load(),
	}
}

// Close closes the connection.
func (x *countedConn) Close() error {
	x.once.Do(x.c.Close)
	return x.Conn.Close()
}

// ServerHandshake carries the inner handshake out.
func (x *counted) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := x.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	c := x.b.Connect()
	out := &countedConn{Conn: conn, c: c}
	c.Show(out.show, func(string) { _ = raw.Close() }) // HTTP/2 has no word for the reason
	return out, countedInfo{AuthInfo: info, c: c}, nil
}

// Clone copies the credentials.
func (x *counted) Clone() credentials.TransportCredentials {
	return &counted{TransportCredentials: x.TransportCredentials.Clone(), b: x.b}
}

// withConnection returns the context with the connection that the call comes by.
func withConnection(ctx context.Context) (context.Context, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(countedInfo); ok {
			ctx = broker.WithConnection(ctx, info.c)
		}
	}
	given := grpcmetadata.ValueFromIncomingContext(ctx, connectionHeader)
	switch len(given) {
	case 0:
		return ctx, nil
	case 1:
		return broker.WithConnectionID(ctx, given[0])
	}
	return ctx, invalid("connection", "connection", "", "metadata "+connectionHeader+" is given more than once")
}

// vhostOfRequest returns the vhost that a request works in, "" if none.
func vhostOfRequest(req any) string {
	switch r := req.(type) {
	case *brokerv1.PublishOneRequest:
		return vhostOf(r.GetMessage().GetVhost())
	case *brokerv1.GetRequest:
		return vhostOf(r.GetVhost())
	case *brokerv1.BindRequest:
		return vhostOf(r.GetBinding().GetVhost())
	case *brokerv1.UnbindRequest:
		return vhostOf(r.GetBinding().GetVhost())
	case *brokerv1.DeclareQueueRequest:
		return vhostOf(r.GetVhost())
	case *brokerv1.DeclareExchangeRequest:
		return vhostOf(r.GetVhost())
	}
	return ""
}

// Connect keeps a connection open until the stream ends.
func (x *brokerServer) Connect(req *brokerv1.ConnectRequest, stream grpc.ServerStreamingServer[brokerv1.ConnectResponse]) error {
	ctx := stream.Context()
	if err := x.s.b.Admit(); err != nil {
		return err
	}
	if req.GetVhost() != "" {
		if err := x.s.b.OpenVHost(ctx, req.GetVhost()); err != nil {
			return err
		}
	}
	c := x.s.b.Connect()
	defer c.Close()
	id, err := c.ID()
	if err != nil {
		return err
	}
	if err := stream.Send(&brokerv1.ConnectResponse{Connection: id}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-x.s.stopping:
		return errStopping()
	}
}
