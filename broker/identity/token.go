package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/password"
)

// Limits of tokens.
const (
	DefaultTokenLifetime = time.Hour
	MaxTokenLifetime     = 30 * 24 * time.Hour
	// MaxTokensPerUser limits the tokens of a user that have not expired.
	MaxTokensPerUser = 100
)

// tokenComponent is the component of the global parameters that hold tokens; the name of the
// parameter is the token's id.
const tokenComponent = "access-token"

const (
	tokenIDBytes     = 12
	tokenSecretBytes = 32
)

// tokenRecord is what the catalog stores about a token.
type tokenRecord struct {
	User string `json:"user"`
	// Sum is the SHA-256 of the secret. No salt is needed, because the secret has 256 random bits.
	Sum []byte `json:"sum"`
	// Password is the SHA-256 of the hash of the password that the user had when the token was
	// minted. The token ends when the user gets another password, but not when the same password
	// gets a better hash.
	Password []byte `json:"password"`
	ExpireMs int64  `json:"expires_ms"`
}

// Token is a token that was just minted. Its text cannot be read again.
type Token struct {
	Text     string
	ID       string // for RevokeToken
	ExpireMs int64  // milliseconds since the Unix epoch
}

func passwordSum(u *catalog.User) []byte {
	sum := sha256.Sum256([]byte(u.PasswordHash))
	return sum[:]
}

// MintToken creates a token with which the caller can log in during lifetime; 0 stands for
// DefaultTokenLifetime. A caller who has logged in with a token cannot mint one.
func (l *Logins) MintToken(ctx context.Context, lifetime time.Duration) (Token, error) {
	about := failure.Error{Class: failure.PreconditionFailed, Kind: "token"}
	who, err := l.Who(ctx)
	switch {
	case err != nil:
		return Token{}, err
	case who == nil:
		about.State, about.Reason = true, "nobody logs in here; set auth.mode to password"
		return Token{}, &about
	case who.backend != "":
		about.Class, about.Reason = failure.NotAllowed, "user "+strconv.Quote(who.User())+" is of backend "+who.backend+"; only users of this cluster mint tokens"
		return Token{}, &about
	case who.byToken:
		about.Class, about.Reason = failure.NotAllowed, "log in by password to mint a token"
		return Token{}, &about
	case lifetime < 0 || lifetime > MaxTokenLifetime:
		about.Arg, about.Value = "lifetime_ms", strconv.FormatInt(lifetime.Milliseconds(), 10)
		about.Reason = "want 0 (default) to " + strconv.FormatInt(MaxTokenLifetime.Milliseconds(), 10)
		return Token{}, &about
	case lifetime == 0:
		lifetime = DefaultTokenLifetime
	}
	now := l.now()
	if err := l.forgetTokens(ctx, who.User(), now); err != nil {
		return Token{}, err
	}
	random := make([]byte, tokenIDBytes+tokenSecretBytes)
	_, _ = rand.Read(random) // never fails
	id, secret := hex.EncodeToString(random[:tokenIDBytes]), base64.RawURLEncoding.EncodeToString(random[tokenIDBytes:])
	sum := sha256.Sum256([]byte(secret))
	rec := tokenRecord{User: who.User(), Sum: sum[:], Password: passwordSum(who.user), ExpireMs: now.Add(lifetime).UnixMilli()}
	value, err := json.Marshal(rec) //nolint:gosec // sums, no secrets
	if err != nil {
		return Token{}, failure.Translate(err, about)
	}
	_, err = l.commands.Propose(ctx, about, &catalog.PutParameter{Parameter: catalog.Parameter{
		Component: tokenComponent, Name: id, Value: string(value),
	}}, nil)
	if err == nil {
		a := audit.NotesOf(ctx)
		a.Named(id)
		a.Note(audit.Change{Field: "expires", After: time.UnixMilli(rec.ExpireMs).UTC().Format(time.RFC3339)})
	}
	return Token{Text: tokenPrefix + id + "_" + secret, ID: id, ExpireMs: rec.ExpireMs}, err
}

// forgetTokens removes the expired tokens of a user, and fails if too many others are left.
func (l *Logins) forgetTokens(ctx context.Context, user string, now time.Time) error {
	v := l.view()
	left := 0
	for p := range v.Parameters("") {
		if p.Component != tokenComponent {
			continue
		}
		var rec tokenRecord
		if err := json.Unmarshal([]byte(p.Value), &rec); err != nil || rec.User != user {
			continue
		}
		if rec.ExpireMs > now.UnixMilli() {
			left++
			continue
		}
		if _, err := l.commands.Propose(ctx, failure.Error{Kind: "token"}, &catalog.DeleteParameter{Component: tokenComponent, Name: p.Name}, nil); err != nil {
			return err
		}
	}
	if left < MaxTokensPerUser {
		return nil
	}
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "token",
		Reason: "user " + strconv.Quote(user) + " has " + strconv.Itoa(left) + " tokens, the limit is " + strconv.Itoa(MaxTokensPerUser) + "; revoke some",
	}
}

// RevokeToken ends a token by its id, and reports whether there was one. Callers may end their own
// tokens, administrators all of them. Streams that are open go on.
func (l *Logins) RevokeToken(ctx context.Context, id string) (deleted bool, err error) {
	who, err := l.Who(ctx)
	if err != nil {
		return false, err
	}
	v := l.view()
	rec, ok := findToken(v, id)
	if !ok {
		return false, nil
	}
	if who != nil && (who.backend != "" || rec.User != who.User()) { // only users of the catalog have tokens
		if err := l.Require(ctx, TagAdministrator); err != nil {
			return false, err
		}
	}
	reply, err := l.commands.Propose(ctx, failure.Error{Kind: "token", Name: id}, &catalog.DeleteParameter{Component: tokenComponent, Name: id}, nil)
	if reply.Deleted || reply.Repeated {
		audit.NotesOf(ctx).Note(audit.Change{Field: "of_user", Before: rec.User})
	}
	return reply.Deleted, err
}

// findToken reads the record of a token from the view. A record that cannot be decoded counts as
// missing.
func findToken(v *catalog.View, id string) (rec tokenRecord, ok bool) {
	p, ok := v.Parameter("", tokenComponent, id)
	if !ok {
		return rec, false
	}
	return rec, json.Unmarshal([]byte(p.Value), &rec) == nil
}

// LoginToken verifies a token: one from MintToken, the host's token, or one of another backend.
func (l *Logins) LoginToken(ctx context.Context, text string, from netip.Addr) (*Identity, error) {
	v := l.view()
	loopback := from.Unmap().IsLoopback()
	if who := l.loginHost(text, loopback); who != nil {
		return who, nil
	}
	if !strings.HasPrefix(text, tokenPrefix) && access.IsJWT(text) {
		return l.login(ctx, access.Credentials{Secret: text, Bearer: true}, from)
	}
	rest, _ := strings.CutPrefix(text, tokenPrefix)
	id, secret, _ := strings.Cut(rest, "_")
	rec, ok := findToken(v, id)
	sum := sha256.Sum256([]byte(secret))
	u, exists := v.User(rec.User)
	switch {
	case !ok || !exists || subtle.ConstantTimeCompare(sum[:], rec.Sum) != 1,
		subtle.ConstantTimeCompare(passwordSum(u), rec.Password) != 1 && !password.UpgradeOf(u.PasswordHash, rec.Password),
		l.now().UnixMilli() >= rec.ExpireMs:
		return nil, l.certainty.Definite(ctx, Unauthenticated("the token is wrong, has expired, was revoked, or its user has changed the password; mint another"))
	}
	who, err := l.admitted(u, loopback)
	if err != nil {
		return nil, err
	}
	who.byToken, who.expireMs, who.mechanism = true, rec.ExpireMs, audit.MechanismToken
	return who, nil
}

// TokenID returns the id of a token that MintToken made, for RevokeToken; ok is false for any other text. It does not
// say whether the token is valid.
func TokenID(text string) (tokenID string, ok bool) {
	rest, is := strings.CutPrefix(text, tokenPrefix)
	if !is || strings.HasPrefix(text, hostTokenPrefix) {
		return "", false
	}
	tokenID, _, ok = strings.Cut(rest, "_")
	return tokenID, ok
}
