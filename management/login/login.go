// Package login finds out who sends an HTTP request: a user with a password, or the bearer of a
// token. It counts and audits refused logins, and notifies the
// connection's gate.
package login

import (
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

// Header logs a request in by its Authorization header, Basic or Bearer, unless the node asks for no logins: then
// everybody has all rights. The request that it returns has the identity in its context. The error is *failure.Error.
func (g *Guard) Header(r *http.Request) (*http.Request, error) {
	ctx, who := r.Context(), identity.Itself()
	if g.b.Logins.Authenticates() {
		var user string
		var err error
		checked := gate.Of(ctx).Check()
		who, user, err = g.identify(r)
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

// identify returns the identity of the caller, and the user name that a caller with a password gave.
func (g *Guard) identify(r *http.Request) (who *identity.Identity, user string, err error) {
	from := addressOf(r.RemoteAddr)
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") {
		who, err = g.b.Logins.LoginToken(r.Context(), token, from)
		return who, "", err
	}
	user, password, _ := r.BasicAuth()
	who, err = g.b.Logins.Login(r.Context(), user, password, from)
	return who, user, err
}

// addressOf returns the zero address for a text that is not an address.
func addressOf(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr()
}
