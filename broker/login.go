package broker

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/password"
)

// Bounds of logging in.
const (
	// MaxHashes bounds the passwords that a node hashes at a time: each takes memory and a
	// core for some milliseconds.
	MaxHashes = 2
	// MaxHashWaiters bounds the calls that wait for that; more are told to come back.
	MaxHashWaiters = 512
	// maxVerified bounds the credentials that are known to be right.
	maxVerified = 10_000
)

// hashRetryAfter is what a client is told to wait while too many log in.
const hashRetryAfter = time.Second

// logins verifies credentials. One that was verified is remembered by a keyed hash of it,
// in memory alone, until its user changes.
type logins struct {
	key     [sha256.Size]byte // of this process
	slots   chan struct{}
	waiting atomic.Int32
	tries   tries
	dummy   func() string // a hash that takes as long as others

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]*catalog.User
}

func newLogins() *logins {
	l := &logins{slots: make(chan struct{}, MaxHashes), verified: map[[sha256.Size]byte]*catalog.User{}}
	_, _ = rand.Read(l.key[:]) // never fails
	l.dummy = sync.OnceValue(func() string {
		hash, _, _ := password.Hash(rand.Text())
		return hash
	})
	return l
}

// digest is what stands for a credential.
func (l *logins) digest(parts ...string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, l.key[:])
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0xff}) // in no UTF-8
	}
	h.Sum(d[:0])
	return d
}

// known tells whether a credential was verified for the user as it is now.
func (l *logins) known(d [sha256.Size]byte, u *catalog.User) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return u != nil && l.verified[d] == u
}

func (l *logins) remember(d [sha256.Size]byte, u *catalog.User) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.verified) >= maxVerified {
		clear(l.verified)
	}
	l.verified[d] = u
}

// enter waits for its turn to hash a password; leave ends it.
func (l *logins) enter(ctx context.Context) (leave func(), err error) {
	if l.waiting.Add(1) > MaxHashWaiters {
		l.waiting.Add(-1)
		return nil, &Error{
			Class: ResourceExhausted, Kind: "login", RetryAfter: hashRetryAfter,
			Reason: "too many passwords are being checked on this node; try again, or log in with a token",
		}
	}
	defer l.waiting.Add(-1)
	select {
	case l.slots <- struct{}{}:
		return func() { <-l.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Authenticates tells whether who calls must log in.
func (b *Broker) Authenticates() bool { return b.cfg.Authenticate }

// Login verifies name and password of a caller at an address: some users must be on this
// host (VH-1), and an address may be wrong only so often (LoginTries; ResourceExhausted). The
// zero address is of nobody knows where. All refusals read the same, whatever is wrong.
func (b *Broker) Login(ctx context.Context, user, secret string, from netip.Addr) (*Identity, error) {
	v := b.view()
	if v == nil {
		return nil, errStarting()
	}
	u, _ := v.User(user)
	d := b.logins.digest("password", user, secret)
	if !b.logins.known(d, u) {
		if err := b.tried(ctx, u, secret, d, from); err != nil {
			return nil, err
		}
	}
	return b.admitted(u, from.Unmap().IsLoopback())
}

// tried is verify for as often as the address may.
func (b *Broker) tried(ctx context.Context, u *catalog.User, secret string, d [sha256.Size]byte, from netip.Addr) error {
	t := &b.logins.tries
	if t.wrong(d, u) {
		return b.refusedLogin()
	}
	if !t.take(from, time.Now()) {
		return &Error{
			Class: ResourceExhausted, Kind: "login", RetryAfter: LoginTryEvery,
			Reason: "too many wrong passwords came from address " + from.String() + "; wait, and see which program there has an old one",
		}
	}
	err := b.verify(ctx, u, secret, d)
	switch e, _ := errors.AsType[*Error](err); {
	case err == nil:
		t.giveBack(from)
	case e != nil && e.Unauthenticated:
		t.refuse(d, u)
	}
	return err
}

// LoginCertificate takes a user whom a certificate names that the caller's listener has
// verified.
func (b *Broker) LoginCertificate(user string, from netip.Addr) (*Identity, error) {
	v := b.view()
	if v == nil {
		return nil, errStarting()
	}
	u, known := v.User(user)
	if !known {
		b.counters.loginsRefused.Add(1)
		return nil, unauthenticated("there is no user of the name in the certificate, " + quoted(user))
	}
	return b.admitted(u, from.Unmap().IsLoopback())
}

// verify checks a password against the user's hash, or against another one: unknown users
// take as long.
func (b *Broker) verify(ctx context.Context, u *catalog.User, secret string, d [sha256.Size]byte) error {
	leave, err := b.logins.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if b.logins.known(d, u) { // another call verified it meanwhile
		return nil
	}
	if len(secret) > MaxPasswordBytes {
		return b.refusedLogin()
	}
	if u == nil || u.PasswordHash == "" || secret == "" {
		_, _ = password.Matches(secret, b.logins.dummy(), password.Argon2id)
		return b.refusedLogin()
	}
	right, err := password.Matches(secret, u.PasswordHash, password.Algorithm(u.Algorithm))
	if err != nil {
		b.log.Warn("a user's password hash cannot be read", "user", u.Name, "error", err)
	}
	if !right {
		return b.refusedLogin()
	}
	b.logins.remember(d, u)
	return nil
}

func (b *Broker) refusedLogin() *Error {
	b.counters.loginsRefused.Add(1)
	return unauthenticated("user or password is wrong, or the user may log in from the nodes' own hosts alone")
}

func (b *Broker) admitted(u *catalog.User, loopback bool) (*Identity, error) {
	if !loopback && slices.Contains(b.cfg.LoopbackUsers, u.Name) {
		return nil, b.refusedLogin()
	}
	return &Identity{user: u}, nil
}
