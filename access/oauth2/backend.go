package oauth2

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quorate/quorate/access"
)

// Name is the backend's name in the configuration and in metrics.
const Name = "oauth2"

// maxShown limits how much of a text from an unauthenticated client a message shows.
const maxShown = 64

// Backend accepts tokens of one issuer. Its methods may be called concurrently.
type Backend struct {
	cfg  Config
	keys *keyring
}

// New returns a backend that knows no keys until Run fetches them. The Config must be valid.
func New(c Config) *Backend {
	c.setDefaults()
	b := &Backend{cfg: c}
	b.keys = newKeyring(&b.cfg)
	return b
}

// Run fetches the issuer's keys, now and periodically, until ctx ends. It must be called once.
func (b *Backend) Run(ctx context.Context) { b.keys.run(ctx) }

// Figures describe the issuer's keys.
type Figures struct {
	Keys     int
	Age      time.Duration // since they were fetched; negative: never fetched
	Failures uint64        // failed fetches since the start
}

// Figures returns the present figures.
func (b *Backend) Figures() (f Figures) {
	f.Keys, f.Age, f.Failures = b.keys.figures()
	return f
}

// Name implements access.Backend.
func (*Backend) Name() string { return Name }

// Tokens implements access.Backend.
func (*Backend) Tokens() bool { return true }

func refused(reason string) error { return &access.Refused{Reason: reason} }

// Authenticate implements access.Backend (ID-4).
func (b *Backend) Authenticate(ctx context.Context, c access.Credentials) (*access.Identity, error) {
	if n := len(c.Secret); n > access.MaxTokenBytes {
		return nil, refused(fmt.Sprintf("the token has %d bytes, the limit is %d", n, access.MaxTokenBytes))
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(b.cfg.Algorithms), jwt.WithLeeway(b.cfg.Leeway), jwt.WithAudience(b.cfg.Audience),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return c.Now }), jwt.WithStrictDecoding(),
	}
	if b.cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(b.cfg.Issuer))
	}
	claims := jwt.MapClaims{}
	_, err := jwt.NewParser(options...).ParseWithClaims(c.Secret, claims, func(t *jwt.Token) (any, error) {
		return b.keyOf(ctx, t)
	})
	if err != nil {
		return nil, b.why(err, claims)
	}
	return b.cfg.identity(claims)
}

// keyOf returns the key that must have signed a token.
func (b *Backend) keyOf(ctx context.Context, t *jwt.Token) (crypto.PublicKey, error) {
	if _, has := t.Header["crit"]; has { // RFC 7515, 4.1.11: none of these is known here
		return nil, refused("the header of the token demands extensions (crit), and this cluster supports none")
	}
	id, is := t.Header["kid"].(string)
	if _, has := t.Header["kid"]; has && !is {
		return nil, refused("the kid in the header of the token is not a string")
	}
	found, err := b.keys.find(ctx, id, t.Method.Alg())
	switch {
	case err != nil:
		return nil, &access.Unavailable{Backend: Name, Cause: fmt.Errorf("the keys of the issuer are being fetched: %w", err)}
	case found.key != nil:
		return found.key.public, nil
	case found.failed != nil:
		return nil, &access.Unavailable{Backend: Name, Cause: fmt.Errorf("the keys of the issuer cannot be fetched: %w", found.failed)}
	case found.again > 0:
		return nil, &access.Unavailable{Backend: Name, RetryAfter: found.again, Cause: fmt.Errorf(
			"the issuer has no key %q, by which the token is signed; its keys were fetched a moment ago and can be fetched again in %v",
			id[:min(len(id), maxShown)], found.again.Round(time.Millisecond))}
	case id == "":
		return nil, &access.Refused{Reason: "the token names no key (kid), and the issuer does not have exactly one key for " + t.Method.Alg(), Passing: true}
	}
	return nil, &access.Refused{
		Reason: "the issuer has no key " + strconv.Quote(id[:min(len(id), maxShown)]) + " for " + t.Method.Alg(), Passing: true,
	}
}

// why words an error of the library. It shows nothing of the token that was not verified.
func (b *Backend) why(err error, claims jwt.MapClaims) error {
	own, isOwn := errors.AsType[*access.Refused](err)
	unavailable, is := errors.AsType[*access.Unavailable](err)
	switch {
	case is:
		return unavailable
	case isOwn:
		return own
	case errors.Is(err, jwt.ErrTokenMalformed):
		return refused("the token cannot be read; send a signed JSON Web Token unchanged")
	case errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return refused(fmt.Sprintf("the signature of the token is wrong, or its algorithm is none of %q", b.cfg.Algorithms))
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return refused("the token lacks a claim: it needs exp, aud and iss")
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return refused("the token is not for the audience " + strconv.Quote(b.cfg.Audience))
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return refused("the token is not from the issuer " + strconv.Quote(b.cfg.Issuer))
	case errors.Is(err, jwt.ErrTokenExpired):
		return refused("the token has expired" + when(claims.GetExpirationTime()) + "; get a new one")
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return &access.Refused{Reason: "the token is not valid yet" + when(claims.GetNotBefore()) + "; compare the clocks", Passing: true}
	}
	return refused("the claims of the token cannot be read")
}

// when words the time in a claim of a token whose signature is verified.
func when(at *jwt.NumericDate, err error) string {
	if err != nil || at == nil {
		return ""
	}
	return " (" + at.UTC().Format(time.RFC3339) + ")"
}
