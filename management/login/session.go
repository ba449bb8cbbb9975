package login

import (
	"context"
	"net/http"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/identity"
)

// SessionTime is how long a login to the page lasts.
const SessionTime = 8 * time.Hour

// Asks reports whether callers have to log in at all.
func (g *Guard) Asks() bool { return g.b.Logins.Authenticates() }

// Begin logs a user in by a password and mints a token that stands for the login during SessionTime, on every node.
// The error is *failure.Error.
func (g *Guard) Begin(r *http.Request, user, password string) (identity.Token, error) {
	in := r.Clone(r.Context())
	in.SetBasicAuth(user, password)
	in, err := g.Header(in)
	if err != nil {
		return identity.Token{}, err
	}
	var minted identity.Token
	act := audit.Act{Operation: audit.OpTokenMint, Kind: "token", From: OriginOf(r)}
	err = g.b.Audit.Audited(in.Context(), act, func(ctx context.Context) (err error) {
		minted, err = g.b.Logins.MintToken(ctx, SessionTime)
		return err
	})
	return minted, err
}

// End ends the token with this id, for the caller of r, whom Header has logged in. The error is *failure.Error.
func (g *Guard) End(r *http.Request, id string) error {
	act := audit.Act{Operation: audit.OpTokenRevoke, Kind: "token", Name: id, From: OriginOf(r)}
	return g.b.Audit.Audited(r.Context(), act, func(ctx context.Context) error {
		_, err := g.b.Logins.RevokeToken(ctx, id)
		return err
	})
}
