package login

import (
	"context"
	"net/http"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/gate"
)

// SessionTime is how long the token of a session is valid.
const SessionTime = 8 * time.Hour

// Asks reports whether callers have to log in at all.
func (g *Guard) Asks() bool { return g.b.Logins.Authenticates() }

// Password logs a user in by a password. The request that it returns has the identity in its context. The error is
// *failure.Error.
func (g *Guard) Password(r *http.Request, user, password string) (*http.Request, error) {
	in := r.Clone(r.Context())
	in.SetBasicAuth(user, password)
	return g.Header(in)
}

// Mint mints a token that stands for the login of r during SessionTime, on every node. The error is *failure.Error.
func (g *Guard) Mint(r *http.Request) (minted identity.Token, err error) {
	act := audit.Act{Operation: audit.OpTokenMint, Kind: "token", From: OriginOf(r)}
	err = g.b.Audit.Audited(r.Context(), act, func(ctx context.Context) (err error) {
		minted, err = g.b.Logins.MintToken(ctx, SessionTime)
		return err
	})
	return minted, err
}

// Begin is Password and Mint.
func (g *Guard) Begin(r *http.Request, user, password string) (identity.Token, error) {
	in, err := g.Password(r, user, password)
	if err != nil {
		return identity.Token{}, err
	}
	return g.Mint(in)
}

// Outside notes that somebody asks for what needs no login. Until the caller calls release, and for a while after that,
// the connection may stay open without a login.
func (g *Guard) Outside(r *http.Request) (release func()) { return gate.Of(r.Context()).Hold() }

// End ends the token with this id, for the caller of r, whom Header has logged in. The error is *failure.Error.
func (g *Guard) End(r *http.Request, id string) error {
	act := audit.Act{Operation: audit.OpTokenRevoke, Kind: "token", Name: id, From: OriginOf(r)}
	return g.b.Audit.Audited(r.Context(), act, func(ctx context.Context) error {
		_, err := g.b.Logins.RevokeToken(ctx, id)
		return err
	})
}
