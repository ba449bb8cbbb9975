package grpcapi

import (
	"cmp"
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/gate"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// connectionHeader is the metadata that names the connection of a call.
const connectionHeader = "quorate-connection"

// Metadata by which a client introduces itself.
const (
	nameHeader  = "quorate-client-name"
	agentHeader = "user-agent"
	// maxClientName bounds each of them, as operators see it, in bytes.
	maxClientName = 128
)

// Time limits of a connection that an operator closes.
const (
	// closeWait bounds the wait for its calls and streams to end.
	closeWait = 5 * time.Second
	// lingerTime is how long the last answers have to reach the client.
	lingerTime = 250 * time.Millisecond
)

// counted makes every client connection known to the broker, from its handshake until it is closed.
// gRPC's stats handler would do as well, at the cost of an event per message.
type counted struct {
	credentials.TransportCredentials
	b    *broker.Broker
	life context.Context // the server's life
	// within bounds the time for which sent data may stay unacknowledged. gRPC would set that itself,
	// but does not see the connection behind the gate.
	within time.Duration
	pace   *pace
}

// countedInfo is the result of the handshake, with the connection.
type countedInfo struct {
	credentials.AuthInfo
	conn *countedConn
}

// countedConn ends the broker's connection together with the client's.
type countedConn struct {
	net.Conn
	raw net.Conn // the connection below TLS
	tls bool

	unauthenticated *unauthenticated
	watches         atomic.Int32 // health calls under way

	pace *pace
	// The goroutine that reads the connection owns these.
	own     allowance
	unpaced int // bytes that arrived, and refusals, since pace was last asked
	waiting int // bytes that had been waiting when they were read, since the reader last rested

	gathering sync.Mutex // held by the goroutine that copies a part of a large message

	once sync.Once
	c    *connections.Connection
	life context.Context // ends when streams must end; its cause is what they report
	end  context.CancelCauseFunc

	received, sent atomic.Uint64 // bytes

	rights broker.SendRights

	introduced atomic.Bool // name and product are known

	mu            sync.Mutex
	name, product string // the client's own name
	calls         int    // calls and streams that have not ended
	closing       bool
	rooms         map[*room]struct{} // of large answers
	closed        bool
}

// Write counts the bytes sent.
func (x *countedConn) Write(b []byte) (int, error) {
	n, err := x.Conn.Write(b)
	x.sent.Add(uint64(n)) // not negative
	return n, err
}

// show returns what operators see.
func (x *countedConn) show() connections.ConnectionInfo {
	peer := x.RemoteAddr().String()
	x.mu.Lock()
	defer x.mu.Unlock()
	state := connections.ConnectionRunning
	if x.closing {
		state = connections.ConnectionClosing
	}
	return connections.ConnectionInfo{
		Name: x.title(), Protocol: "gRPC", TLS: x.tls, Peer: peer, Local: x.LocalAddr().String(), State: state, ClientName: x.name, Product: x.product,
		Received: x.received.Load(), Sent: x.sent.Load(),
	}
}

// title is the connection's name: both addresses.
func (x *countedConn) title() string {
	return x.RemoteAddr().String() + " -> " + x.LocalAddr().String()
}

// introduce records what the first call says about the client.
func (x *countedConn) introduce(ctx context.Context) {
	if x.introduced.Load() {
		return
	}
	first := func(header string) string {
		given := grpcmetadata.ValueFromIncomingContext(ctx, header)
		if len(given) == 0 {
			return ""
		}
		return strings.ToValidUTF8(given[0][:min(len(given[0]), maxClientName)], "")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.name, x.product = first(nameHeader), first(agentHeader)
	x.introduced.Store(true)
}

// enter admits a call, which must leave when it ends. It fails if the connection is being closed.
func (x *countedConn) enter() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closing {
		return context.Cause(x.life)
	}
	x.calls++
	return nil
}

// leave ends a call that enter let in, and cuts the connection off if it was the last one of a
// connection that is being closed.
func (x *countedConn) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls--
	x.cutIfLeft()
}

// shut ends the connection: streams end with the reason, calls under way finish, new calls are
// refused. HTTP/2 cannot carry the reason itself, so the connection is cut off after that.
func (x *countedConn) shut(why connections.Closing) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closing {
		return
	}
	x.closing = true
	reason := "is closed by " + cmp.Or(why.By, "an operator")
	if why.Reason != "" {
		reason += ": " + why.Reason
	}
	x.end(&failure.Error{Class: failure.ConnectionForced, Kind: "connection", Name: x.title(), Reason: reason, RetryAfter: retryNow})
	time.AfterFunc(closeWait, x.cut)
	x.cutIfLeft()
}

// cutIfLeft cuts off a closing connection once all calls have ended. mu is held.
func (x *countedConn) cutIfLeft() {
	if x.closing && x.calls == 0 {
		time.AfterFunc(lingerTime, x.cut)
	}
}

func (x *countedConn) cut() { _ = x.raw.Close() }

// Close closes the connection.
func (x *countedConn) Close() error {
	x.once.Do(func() {
		x.c.Close()
		x.end(nil)
		x.freeRooms()
	})
	return x.Conn.Close()
}

// keep has the connection give the room of an answer back when it is closed, because gRPC drops the answer then without a
// notice. It returns false if the connection is closed already.
func (x *countedConn) keep(r *room) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	if x.rooms == nil {
		x.rooms = make(map[*room]struct{})
	}
	x.rooms[r] = struct{}{}
	return true
}

// forget ends what keep has begun.
func (x *countedConn) forget(r *room) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.rooms, r)
}

// freeRooms gives back the rooms of all answers, and makes keep refuse further ones.
func (x *countedConn) freeRooms() {
	x.mu.Lock()
	all := x.rooms
	x.rooms, x.closed = nil, true
	x.mu.Unlock()
	for r := range all {
		r.free()
	}
}

// ServerHandshake runs the inner handshake. It ends with the server's life: gRPC's stop waits for handshakes before it
// notifies any client, and this client may never say a word.
func (x *counted) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer context.AfterFunc(x.life, func() { _ = raw.Close() })()
	conn, info, err := x.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	if conn, err = awaitGreeting(conn); err != nil {
		return nil, nil, err
	}
	if err := gate.From(raw).AcknowledgeWithin(x.within); err != nil {
		return nil, nil, err
	}
	_, secure := info.(credentials.TLSInfo)
	out := &countedConn{Conn: conn, raw: raw, tls: secure, unauthenticated: newUnauthenticated(raw), pace: x.pace, c: x.b.Connections.Connect()}
	out.life, out.end = context.WithCancelCause(x.life)
	out.c.Show(out.show, out.shut)
	return out, countedInfo{AuthInfo: info, conn: out}, nil
}

// Clone copies the credentials.
func (x *counted) Clone() credentials.TransportCredentials {
	return &counted{TransportCredentials: x.TransportCredentials.Clone(), b: x.b, life: x.life, within: x.within, pace: x.pace}
}

// connectionOf returns the connection of a call; all connections come from counted.
func connectionOf(ctx context.Context) *countedConn {
	p, _ := peer.FromContext(ctx)
	info, _ := p.AuthInfo.(countedInfo)
	return info.conn
}

// lifeOf returns the context that ends when a stream must end; the client receives its cause: the
// connection is closed, the server stops, or the login has expired.
func lifeOf(ctx context.Context) context.Context {
	if life, ok := ctx.Value(lifeKey{}).(context.Context); ok {
		return life
	}
	return connectionOf(ctx).life
}

// lifeKey is the key of a stream's life in its context; its own type keeps it unique.
type lifeKey struct{}

// whileLoggedIn returns the context of a stream whose life ends with the login (ID-5); done when
// the stream is over.
func (s *Server) whileLoggedIn(ctx context.Context) (with context.Context, done func()) {
	life, end := context.WithCancelCause(lifeOf(ctx))
	stop := s.b.Logins.WatchLogin(ctx, end)
	return context.WithValue(ctx, lifeKey{}, life), func() {
		stop()
		end(nil)
	}
}

// living returns a context that ends with ctx, and also with the connection's life, with the cause
// of that.
func living(ctx context.Context) (context.Context, func()) {
	life := lifeOf(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// withConnection returns the context with the connection that the call arrives on.
func withConnection(ctx context.Context) (context.Context, error) {
	conn := connectionOf(ctx)
	conn.introduce(ctx)
	ctx = connections.WithConnection(ctx, conn.c)
	given := grpcmetadata.ValueFromIncomingContext(ctx, connectionHeader)
	switch len(given) {
	case 0:
		return ctx, nil
	case 1:
		return connections.WithConnectionID(ctx, given[0])
	}
	return ctx, invalid("connection", "connection", "", "metadata "+connectionHeader+" is given more than once")
}

// vhostOfRequest returns the vhost of a request; "" if it has none.
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
	if err := x.s.b.Serving.Admit(); err != nil {
		return err
	}
	if req.GetVhost() != "" {
		if err := x.s.b.Connections.OpenVHost(ctx, req.GetVhost()); err != nil {
			return err
		}
	}
	c := x.s.b.Connections.Connect()
	defer c.Close()
	id, err := c.ID()
	if err != nil {
		return err
	}
	if err := stream.Send(&brokerv1.ConnectResponse{Connection: id}); err != nil {
		return err
	}
	life := lifeOf(ctx)
	select {
	case <-ctx.Done():
		return nil
	case <-life.Done():
		return context.Cause(life)
	}
}
