package grpcapi

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/gate"
)

// What an unauthenticated connection may do, in addition to the gate's limits.
const (
	// unauthenticatedStreams is how many calls may have their credentials checked at a time; the next
	// call, and with it the connection, waits.
	unauthenticatedStreams = 1
	// unauthenticatedWatches is how many health calls may run, and maxWatches how many on a connection
	// that has logged in.
	unauthenticatedWatches, maxWatches = 4, 16
	// maxOpenBytes bounds a request that needs no login.
	maxOpenBytes = 4 << 10
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 32 << 10
	// windowBytes is the least that may arrive of a call before it is read (Config.WindowBytes). That grows only for the
	// next portion of a message whose reading has begun. Messages that are larger than this need room.
	windowBytes = 64 << 10
	// connWindowBytes is how much of all calls of a connection may be in transit.
	connWindowBytes = 4 << 20
)

// preface is the beginning of every HTTP/2 connection.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// greeted is a connection whose first bytes were read already. One goroutine reads it.
type greeted struct {
	net.Conn
	head []byte
}

// NetConn returns the connection below.
func (g *greeted) NetConn() net.Conn { return g.Conn }

// Read implements net.Conn.
func (g *greeted) Read(b []byte) (int, error) {
	if len(g.head) == 0 {
		return g.Conn.Read(b)
	}
	n := copy(b, g.head)
	g.head = g.head[n:]
	return n, nil
}

// awaitGreeting waits for the client's first bytes. gRPC allocates its buffers before it reads any,
// and a silent connection is not worth them.
func awaitGreeting(c net.Conn) (net.Conn, error) {
	head := make([]byte, len(preface))
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	return &greeted{c, head}, nil // gRPC refuses any other preface
}

// unauthenticated is the state of a connection until it has logged in.
type unauthenticated struct {
	conn     *gate.Conn
	checks   chan struct{} // one element for each check of credentials that is under way
	loggedIn chan struct{} // closed once the connection has logged in
	once     sync.Once
}

func newUnauthenticated(c net.Conn) *unauthenticated {
	return &unauthenticated{conn: gate.From(c), checks: make(chan struct{}, unauthenticatedStreams), loggedIn: make(chan struct{})}
}

// known reports whether the connection has logged in.
func (x *unauthenticated) known() bool {
	select {
	case <-x.loggedIn:
		return true
	default:
		return false
	}
}

// admit records that the connection has logged in.
func (x *unauthenticated) admit() {
	x.once.Do(func() {
		x.conn.Admit()
		close(x.loggedIn)
	})
}

// early examines a call before any of its request is accepted. If the headers lack credentials, or
// have malformed ones, it makes admit refuse the call; if it refused the call itself, gRPC would
// keep the call in memory until the caller's deadline. It runs on the connection's reader, so it
// does not check the credentials. While credentials of an unauthenticated client are being checked,
// it lets nothing more be read from that client.
func (s *Server) early(ctx context.Context, info *tap.Info) (context.Context, error) {
	with, err := s.look(ctx, info)
	if err != nil {
		connectionOf(ctx).unpaced += refusedBytes
		return context.WithValue(ctx, refusedKey{}, err), nil
	}
	return with, nil
}

// refusedKey is the key in a call's context of why early refused the call, before its headers were
// read in full.
type refusedKey struct{}

// refusedEarly returns why admit must refuse a call; nil: it need not.
func refusedEarly(ctx context.Context) error {
	err, _ := ctx.Value(refusedKey{}).(error)
	return err
}

// look is early, with the error as a result.
func (s *Server) look(ctx context.Context, info *tap.Info) (context.Context, error) {
	conn := connectionOf(ctx)
	if isOpen(info.FullMethodName) {
		return ctx, s.countOpen(ctx, conn)
	}
	if !s.b.Logins.Authenticates() || conn.unauthenticated.known() {
		return ctx, nil
	}
	if _, err := parseCredential(info.Header.Get("authorization")); err != nil {
		s.b.Audit.LoginRefused(ctx, audit.LoginTry{From: audit.Origin{Protocol: protocol, Address: conn.RemoteAddr().String()}}, err)
		return ctx, err
	}
	return s.awaitCheck(ctx, conn)
}

// awaitCheck waits until the credentials of the call may be checked. The returned context carries
// the function that ends the check.
func (s *Server) awaitCheck(ctx context.Context, conn *countedConn) (context.Context, error) {
	within := time.NewTimer(max(s.cfg.Gate.LoginTimeout(), time.Second))
	defer within.Stop()
	select {
	case conn.unauthenticated.checks <- struct{}{}:
	case <-conn.unauthenticated.loggedIn:
		return ctx, nil
	case <-conn.life.Done():
		return ctx, context.Cause(conn.life)
	case <-within.C:
		return ctx, &failure.Error{
			Class: failure.ResourceExhausted, Kind: "login", RetryAfter: retryNow,
			Reason: "the credentials of other calls on this connection are still being checked; try again",
		}
	}
	done := sync.OnceFunc(func() { <-conn.unauthenticated.checks })
	context.AfterFunc(ctx, done) // the call may end before its credentials are checked
	return context.WithValue(ctx, checkKey{}, done), nil
}

// checkKey is the key of the function that ends the check of a call's credentials.
type checkKey struct{}

// checked ends the check of a call's credentials.
func checked(ctx context.Context) {
	if done, ok := ctx.Value(checkKey{}).(func()); ok {
		done()
	}
}

// countOpen admits a call that needs no login, unless too many such calls run on its connection.
func (s *Server) countOpen(ctx context.Context, conn *countedConn) error {
	most := int32(unauthenticatedWatches)
	if conn.unauthenticated.known() {
		most = maxWatches
	}
	if conn.watches.Add(1) > most {
		conn.watches.Add(-1)
		return &failure.Error{
			Class: failure.ResourceExhausted, Kind: "health",
			Reason: "too many calls for health run on this connection; end some, or watch with one of them",
		}
	}
	release := conn.unauthenticated.conn.Hold()
	context.AfterFunc(ctx, func() {
		conn.watches.Add(-1)
		release()
	})
	return nil
}

// isOpen reports that a method needs no login: the health methods.
func isOpen(method string) bool {
	return method == healthv1.Health_Check_FullMethodName || method == healthv1.Health_Watch_FullMethodName ||
		method == healthv1.Health_List_FullMethodName
}

// credential is what the headers of a call say about its caller.
type credential struct {
	bearer         bool
	token          string // if it is a bearer token
	user, password string // otherwise
}

// parseCredential reads the header authorization.
func parseCredential(given []string) (c credential, err error) {
	if len(given) == 0 {
		return c, notLoggedIn("the call has no login; send user and password, or a token, as authorization")
	}
	if len(given) > 1 || len(given[0]) > maxCredentialBytes {
		return c, notLoggedIn("authorization is too long, or there are several")
	}
	scheme, text, _ := strings.Cut(given[0], " ")
	switch {
	case strings.EqualFold(scheme, "bearer"):
		return credential{bearer: true, token: text}, nil
	case strings.EqualFold(scheme, "basic"):
		plain, err := base64.StdEncoding.DecodeString(text)
		user, password, found := strings.Cut(string(plain), ":")
		if err != nil || !found {
			return c, notLoggedIn("authorization is not the base64 of user:password")
		}
		return credential{user: user, password: password}, nil
	}
	return c, notLoggedIn("authorization has neither the scheme Basic nor Bearer")
}
