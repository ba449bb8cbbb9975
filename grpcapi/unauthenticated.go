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

// What a connection may do that has not logged in, beside the gate's bounds.
const (
	// unauthenticatedStreams is how many calls may have their credentials looked at at the same time; the
	// next one, and with it the connection, waits for one of them.
	unauthenticatedStreams = 1
	// unauthenticatedWatches is how many calls for health may run, maxWatches the same of a connection
	// that has logged in.
	unauthenticatedWatches, maxWatches = 4, 16
	// maxOpenBytes is the size of a request that needs no login.
	maxOpenBytes = 4 << 10
	// maxHeaderBytes is the size of a call's headers.
	maxHeaderBytes = 32 << 10
	// windowBytes of a call may come before it is read; it does not grow, but for the rest
	// of a message whose reading has begun.
	windowBytes = 64 << 10
	// connWindowBytes is how much of all calls may be on its way.
	connWindowBytes = 4 << 20
)

// preface is what each connection of HTTP/2 begins with.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// greeted is a connection whose first bytes were read. One goroutine reads.
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

// awaitGreeting waits for the client's first bytes: gRPC takes its buffers before it has read any,
// which a connection that says nothing is not worth.
func awaitGreeting(c net.Conn) (net.Conn, error) {
	head := make([]byte, len(preface))
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	return &greeted{c, head}, nil // gRPC refuses another greeting
}

// unauthenticated is what there is of a connection until it has logged in.
type unauthenticated struct {
	conn     *gate.Conn
	checks   chan struct{} // holds as many as credentials are being looked at
	loggedIn chan struct{} // closed once it has logged in
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

// admit notes that it has.
func (x *unauthenticated) admit() {
	x.once.Do(func() {
		x.conn.Admit()
		close(x.loggedIn)
	})
}

// early looks at calls before a byte of their requests is taken in, and has admit refuse those whose headers
// have no credentials, or not the form of some. It does not refuse them itself: gRPC would keep each in memory
// until the time that its caller has set. It runs on the connection's reader, so it does not check
// credentials. While some of an unauthenticated client are being checked, nothing more is read from it.
func (s *Server) early(ctx context.Context, info *tap.Info) (context.Context, error) {
	with, err := s.look(ctx, info)
	if err != nil {
		return context.WithValue(ctx, refusedKey{}, err), nil
	}
	return with, nil
}

// refusedKey is the key, in a call's context, of why it was refused before its headers were read in
// full.
type refusedKey struct{}

// refusedEarly returns why admit is to refuse a call; nil: it is not.
func refusedEarly(ctx context.Context) error {
	err, _ := ctx.Value(refusedKey{}).(error)
	return err
}

// look is early, with the error.
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

// awaitCheck waits until the call's credentials may be looked at. The context has what ends that.
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
			Reason: "the credentials of other calls by this connection are still being checked; try again",
		}
	}
	done := sync.OnceFunc(func() { <-conn.unauthenticated.checks })
	context.AfterFunc(ctx, done) // it may end before it is looked at
	return context.WithValue(ctx, checkKey{}, done), nil
}

// checkKey is the key of what ends the check of a call's credentials.
type checkKey struct{}

// checked ends a look at a call's credentials.
func checked(ctx context.Context) {
	if done, ok := ctx.Value(checkKey{}).(func()); ok {
		done()
	}
}

// countOpen lets a call in that needs no login, unless too many of its connection run.
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

// isOpen reports that a method asks nobody to log in: health's.
func isOpen(method string) bool {
	return method == healthv1.Health_Check_FullMethodName || method == healthv1.Health_Watch_FullMethodName ||
		method == healthv1.Health_List_FullMethodName
}

// credential is what the headers of a call say of its caller.
type credential struct {
	bearer         bool
	token          string // if it is the bearer of one
	user, password string // if not
}

// parseCredential reads the header authorization.
func parseCredential(given []string) (c credential, err error) {
	if len(given) == 0 {
		return c, notLoggedIn("nobody is logged in; send user and password, or a token, as authorization")
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
