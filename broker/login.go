package broker

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/lograte"
	"github.com/quorate/quorate/internal/password"
)

// Bounds of logging in.
const (
	// MaxHashes bounds the passwords that a node hashes at a time: each takes memory and a
	// core for some milliseconds. One core is left for what else the node does, if there are several.
	MaxHashes = 2
	// MaxHashWaiters bounds the calls that wait for that; more are told to come back.
	MaxHashWaiters = 512
	// restAfterWrong is for how many times of what a wrong password took to be hashed nobody hashes in its place, maxRest at
	// most: who guesses, from however many addresses, must not take a processor from publishers.
	restAfterWrong = 2
	maxRest        = 250 * time.Millisecond
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
	lines   lograte.Lines // about those that are refused
	// upgrades are hashes that take the place of weaker ones; see upgradeHashes.
	upgrades chan upgrade

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]*catalog.User
	hashing  map[[sha256.Size]byte]chan struct{} // by credential; closed when that is over
}

func newLogins(unseen *atomic.Uint64) *logins {
	l := &logins{
		tries: tries{unseen: unseen},
		lines: lograte.Lines{Burst: RefusedLoginLines, Every: RefusedLoginEvery},
		slots: make(chan struct{}, hashesAtOnce(runtime.NumCPU())), verified: map[[sha256.Size]byte]*catalog.User{},
		hashing: map[[sha256.Size]byte]chan struct{}{}, upgrades: make(chan upgrade, maxUpgrades),
	}
	_, _ = rand.Read(l.key[:]) // never fails
	return l
}

func hashesAtOnce(processors int) int { return max(1, min(MaxHashes, processors-1)) }

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

// alone waits until no other call hashes the same credential; leave ends that. A client whose
// node is gone opens all its streams on another one at the same moment: one hash is enough for
// all of them, and is over sooner than several at a time.
func (l *logins) alone(ctx context.Context, d [sha256.Size]byte) (leave func(), err error) {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > MaxHashWaiters {
		return nil, tooManyLogins()
	}
	for {
		mine := make(chan struct{})
		other := l.begin(d, mine)
		if other == nil {
			return func() { l.end(d, mine) }, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin notes that a credential is being hashed, until mine is closed, and returns nil, or what
// another call has noted.
func (l *logins) begin(d [sha256.Size]byte, mine chan struct{}) (other chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other = l.hashing[d]; other == nil {
		l.hashing[d] = mine
	}
	return other
}

func (l *logins) end(d [sha256.Size]byte, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hashing, d)
	close(mine)
}

func tooManyLogins() *Error {
	return &Error{
		Class: ResourceExhausted, Kind: "login", RetryAfter: hashRetryAfter,
		Reason: "too many passwords are being checked on this node; try again, or log in with a token",
	}
}

// enter waits for its turn to hash a password; leave ends it, and its place rests unless the password was right.
func (l *logins) enter(ctx context.Context) (leave func(right bool), err error) {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > MaxHashWaiters {
		return nil, tooManyLogins()
	}
	select {
	case l.slots <- struct{}{}:
		began := time.Now()
		return func(right bool) {
			if right {
				<-l.slots
				return
			}
			time.AfterFunc(min(maxRest, restAfterWrong*time.Since(began)), func() { <-l.slots })
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hashing returns how many passwords are being hashed, each of which keeps a processor busy for tens of milliseconds, or were
// just now.
func (b *Broker) Hashing() int { return len(b.logins.slots) }

// Authenticates tells whether who calls must log in.
func (b *Broker) Authenticates() bool { return b.cfg.Authenticate }

// Login verifies name and password of a caller at an address: some users must be on this
// host (VH-1), and an address may be wrong only so often (LoginTries; ResourceExhausted). The
// zero address is of nobody knows where. All refusals read the same, whatever is wrong; while this
// node cannot tell, they are Unavailable (EX-16).
func (b *Broker) Login(ctx context.Context, user, secret string, from netip.Addr) (*Identity, error) {
	return b.login(ctx, access.Credentials{User: user, Secret: secret}, from)
}

// LoginCertificate takes a user whom a certificate names that the caller's listener has
// verified.
func (b *Broker) LoginCertificate(user string, from netip.Addr) (*Identity, error) {
	v := b.view()
	u, known := v.User(user)
	if !known {
		return nil, b.Definite(b.life, unauthenticated("there is no user of the name in the certificate, "+quoted(user)))
	}
	return by(mechanismCertificate)(b.admitted(u, from.Unmap().IsLoopback()))
}

// verify checks a password against the user's hash. Unknown users, and those whose hash is of
// another kind than new ones, take as long: there is one hash of today's cost in any case.
func (b *Broker) verify(ctx context.Context, u *catalog.User, secret string, d [sha256.Size]byte) error {
	done, err := b.logins.alone(ctx, d)
	if err != nil {
		return err
	}
	defer done()
	if b.logins.known(d, u) { // another call verified it meanwhile
		return nil
	}
	leave, err := b.logins.enter(ctx)
	if err != nil {
		return err
	}
	right := false
	defer func() { leave(right) }()
	if len(secret) > MaxPasswordBytes {
		return wrongPassword()
	}
	if u == nil || u.PasswordHash == "" || secret == "" {
		_, _, _ = password.Hash(secret)
		return wrongPassword()
	}
	right, err = password.Matches(secret, u.PasswordHash, password.Algorithm(u.Algorithm))
	if err != nil {
		b.log.Warn("a user's password hash cannot be read", "user", u.Name, "error", err)
	}
	if !password.Current(u.PasswordHash, password.Algorithm(u.Algorithm)) {
		if hash, a := password.Upgrade(secret, u.PasswordHash); right {
			b.logins.upgrade(upgrade{user: u, credential: d, hash: hash, algorithm: string(a)})
		}
	}
	if !right {
		return wrongPassword()
	}
	b.logins.remember(d, u)
	return nil
}

func wrongPassword() error { return &access.Refused{Reason: access.WrongPassword} }

func (b *Broker) admitted(u *catalog.User, loopback bool) (*Identity, error) {
	if err := b.onLoopback(u.Name, loopback); err != nil {
		return nil, err
	}
	return &Identity{user: u}, nil
}

// onLoopback refuses users that must be on this host, and are not (VH-1).
func (b *Broker) onLoopback(name string, loopback bool) error {
	if !loopback && slices.Contains(b.cfg.LoopbackUsers, name) {
		return unauthenticated(access.WrongPassword)
	}
	return nil
}
