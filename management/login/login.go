// Package login finds out who sends an HTTP request: a user with a password, the bearer of a
// token, or the owner of a session. It counts and audits refused logins, and notifies the
// connection's gate.
package login

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/gate"
)

// Guard logs requests in. It may be used concurrently.
type Guard struct{ b *broker.Broker }

// New returns a guard of the broker's users.
func New(b *broker.Broker) *Guard { return &Guard{b: b} }

// OriginOf is the client's address and program, for the audit.
func OriginOf(r *http.Request) audit.Origin {
	return audit.Origin{Protocol: "http", Address: r.RemoteAddr, Client: r.UserAgent()}
}

// Header logs a request in by its Authorization header, Basic or Bearer. The request that it
// returns has the identity in its context. The error is *failure.Error.
func (g *Guard) Header(r *http.Request) (*http.Request, error) {
	return g.admit(r, func(ctx context.Context, from netip.Addr) (who *identity.Identity, user string, err error) {
		if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") {
			who, err = g.b.Logins.LoginToken(ctx, token, from)
			return who, "", err
		}
		user, password, _ := r.BasicAuth()
		who, err = g.b.Logins.Login(ctx, user, password, from)
		return who, user, err
	})
}

// Password logs a request in by a user name and password that came in its body. Else it is as
// Header.
func (g *Guard) Password(r *http.Request, user, password string) (*http.Request, error) {
	return g.admit(r, func(ctx context.Context, from netip.Addr) (*identity.Identity, string, error) {
		who, err := g.b.Logins.Login(ctx, user, password, from)
		return who, user, err
	})
}

// Token logs a request in by a token that came in a cookie. Else it is as Header.
func (g *Guard) Token(r *http.Request, token string) (*http.Request, error) {
	return g.admit(r, func(ctx context.Context, from netip.Addr) (*identity.Identity, string, error) {
		who, err := g.b.Logins.LoginToken(ctx, token, from)
		return who, "", err
	})
}

// admit lets check find out who sends a request, unless the node asks for no logins: then
// everybody has all rights.
func (g *Guard) admit(r *http.Request, check func(context.Context, netip.Addr) (*identity.Identity, string, error)) (*http.Request, error) {
	ctx, who := r.Context(), identity.Itself()
	if g.b.Logins.Authenticates() {
		var user string
		var err error
		checked := gate.Of(ctx).Check()
		who, user, err = check(ctx, addressOf(r.RemoteAddr))
		if checked(); err != nil {
			g.b.Audit.LoginRefused(ctx, audit.LoginTry{From: OriginOf(r), User: user}, err)
			return nil, err
		}
	}
	gate.Of(ctx).Admit()
	r = r.WithContext(identity.WithIdentity(ctx, who))
	if firstOf(r.Context(), who.User()) {
		g.b.Audit.LoggedIn(r.Context(), OriginOf(r), "")
	}
	return r, nil
}

// addressOf returns the zero address for a text that is not an address.
func addressOf(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr()
}
