// Package identity finds out which user a call comes from. It verifies passwords, tokens and certificates, with the
// users of the catalog and with other backends; it limits what wrong credentials cost; and it keeps the identity of
// calls in their context. Logins may be used concurrently; errors are those of package failure. What a user may do is
// decided by package permission.
package identity

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// Config has the settings and parts of Logins. The settings are those of the broker's Config.
type Config struct {
	Authenticate  bool
	LoopbackUsers []string
	Backends      func(own access.Backend) []access.Backend
	HostToken     string
	// Hashing is called before a password is hashed, with the number of passwords that are then being hashed; nil:
	// nothing is called. It must return soon.
	Hashing func(passwords int)

	Node id.NodeID
	View func() *catalog.View
	// Now returns the time of the cluster, on which nodes agree even if their wall clocks differ.
	Now func() time.Time
	// Unseen counts logins that were refused without a check.
	Unseen    *atomic.Uint64
	Certainty Certainty
	Commands  *audit.Commands
	Log       *slog.Logger
}

// Logins verifies credentials. All methods may be called concurrently.
type Logins struct {
	cfg       Config
	view      func() *catalog.View
	now       func() time.Time
	log       *slog.Logger
	certainty Certainty
	commands  *audit.Commands
	chain     *access.Chain

	throttle throttle
	pending  pending
	*passwords
}

// New returns Logins that remember no credentials yet.
func New(c Config) *Logins {
	l := &Logins{
		cfg: c, view: c.View, now: c.Now, log: c.Log, certainty: c.Certainty, commands: c.Commands,
		throttle: throttle{unseen: c.Unseen}, passwords: newPasswords(c.Log, c.Hashing),
	}
	own := ownUsers{view: c.View, passwords: l.passwords, throttle: &l.throttle, certainty: c.Certainty}
	backends := []access.Backend{own}
	if c.Backends != nil {
		backends = c.Backends(own)
	}
	l.chain = access.NewChain(backends...)
	return l
}

// Authenticates reports whether callers must log in.
func (l *Logins) Authenticates() bool { return l.cfg.Authenticate }

// Login verifies the name and password of a caller at an address. Some users must call from this host (VH-1), and an
// address may send only so many wrong passwords (LoginBurst; ResourceExhausted). The zero address stands for an unknown
// one. All refusals have the same text, whatever is wrong. If this node cannot be certain, it returns Unavailable
// instead (EX-16).
func (l *Logins) Login(ctx context.Context, user, secret string, from netip.Addr) (*Identity, error) {
	return l.login(ctx, access.Credentials{User: user, Secret: secret}, from)
}

// LoginCertificate returns the identity of the user that a certificate names. The listener has verified the
// certificate.
func (l *Logins) LoginCertificate(ctx context.Context, user string, from netip.Addr) (*Identity, error) {
	v := l.view()
	u, known := v.User(user)
	if !known {
		return nil, l.certainty.Definite(ctx, Unauthenticated("there is no user of the name in the certificate, "+strconv.Quote(user)))
	}
	return by(audit.MechanismCertificate)(l.admitted(u, from.Unmap().IsLoopback()))
}

// admitted returns the identity of a user whose credentials were right; loopback reports that the call comes from this
// host.
func (l *Logins) admitted(u *catalog.User, loopback bool) (*Identity, error) {
	if err := l.onLoopback(u.Name, loopback); err != nil {
		return nil, err
	}
	return Of(u), nil
}

// onLoopback refuses users that must call from this host, but call from another one (VH-1).
func (l *Logins) onLoopback(name string, loopback bool) error {
	if !loopback && slices.Contains(l.cfg.LoopbackUsers, name) {
		return Unauthenticated(access.WrongPassword)
	}
	return nil
}

// login asks the backends, unless too many wrong credentials have come from the address.
func (l *Logins) login(ctx context.Context, c access.Credentials, from netip.Addr) (*Identity, error) {
	c.Now = l.now()
	try := l.attempt(c, "", from)
	defer try.end()
	id, by, err := l.chain.Authenticate(ctx, c, func() error { return try.admit(ctx) })
	if err = try.done(err); err != nil {
		return nil, l.certainty.Definite(ctx, err)
	}
	return l.identityOf(id, by, from)
}

// attempt returns an attempt to log in with credentials at one backend, or at all of them for "".
func (l *Logins) attempt(c access.Credentials, backend string, from netip.Addr) *attempt {
	return &attempt{
		throttle: &l.throttle, pending: &l.pending, from: from,
		credential: l.digest("login", backend, strconv.FormatBool(c.Bearer), c.User, c.Secret),
	}
}

// identityOf turns the answer of a backend into an identity.
func (l *Logins) identityOf(id *access.Identity, backend string, from netip.Addr) (*Identity, error) {
	loopback := from.Unmap().IsLoopback()
	if backend == InternalUsers {
		u, known := l.view().User(id.Name)
		if !known { // the user was deleted meanwhile
			return nil, Unauthenticated(access.WrongPassword)
		}
		return by(audit.MechanismPassword)(l.admitted(u, loopback))
	}
	if err := l.onLoopback(id.Name, loopback); err != nil {
		return nil, err
	}
	if access.CheckName(id.Name) != nil || id.Rights == nil || strings.HasPrefix(id.Name, hostUserPrefix) || strings.HasPrefix(id.Name, audit.NodeUserPrefix) {
		return nil, Unauthenticated("backend " + backend + " names a user that there cannot be here")
	}
	who := externalIdentity(id.Name, id.Tags...)
	who.backend, who.mechanism, who.rights, who.ends = backend, backend, id.Rights, id.Expires
	if !id.Expires.IsZero() {
		who.expireMs = id.Expires.UnixMilli()
	}
	return who, nil
}

// Renew gives the calls of a context a new secret of the same user (ID-5). The backend of the login verifies it;
// rights, tags and end are then those of the new secret, if may has no objection. A login without an end needs no
// renewal, so Renew then accepts any secret (AM-11). Errors: NotAllowed if the secret is wrong or another user's;
// Unavailable.
func (l *Logins) Renew(ctx context.Context, secret string, from netip.Addr, may func(*Identity) error) error {
	s := SessionOf(ctx)
	if s == nil || s.who.Load().ends.IsZero() {
		return nil
	}
	was := s.who.Load()
	c := access.Credentials{User: was.User(), Secret: secret, Now: l.now()}
	try := l.attempt(c, was.backend, from)
	defer try.end()
	id, err := l.chain.Again(ctx, was.backend, c, func() error { return try.admit(ctx) })
	if err = try.done(err); err != nil {
		return err
	}
	who, err := l.identityOf(id, was.backend, from)
	switch {
	case err != nil:
		return err
	case who.User() != was.User():
		return &failure.Error{
			Class: failure.NotAllowed, Kind: "login", User: was.User(),
			Reason: "the new secret is of user " + strconv.Quote(who.User()) + ", the connection of user " + strconv.Quote(was.User()) + "; open another one",
		}
	}
	if err := may(who); err != nil {
		return err
	}
	s.who.Store(who)
	return nil
}

// LoginCounts returns how the backends have answered, by their names.
func (l *Logins) LoginCounts() map[string]access.Counts { return l.chain.Counts() }
