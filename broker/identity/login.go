// Package identity finds the user that a call comes from: it verifies passwords, tokens and certificates by the users of
// the catalog and by other backends, bounds what wrong ones cost, and keeps in a context the identity that its calls
// come from. Logins may be used concurrently; errors are of package failure. What a user may do is
// known to package permission.
package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/password"
)

// Bounds of logging in.
const (
	// MaxHashes bounds the passwords that a node hashes at a time: each takes memory and a
	// core for some milliseconds. One core is left for what else the node does, if there are several.
	MaxHashes = 2
	// MaxHashWaiters bounds the calls that wait for that; more are refused, to come again.
	MaxHashWaiters = 512
	// restAfterWrong is for how many times of what a wrong password took to be hashed its place stays empty, maxRest at
	// most: guessing, from however many addresses, must not take a processor from publishers.
	restAfterWrong = 2
	maxRest        = 250 * time.Millisecond
	// maxVerified bounds the credentials that are known to be right.
	maxVerified = 10_000
)

// hashRetryAfter is when a client should come again while too many log in.
const hashRetryAfter = time.Second

// Certainty reports whether this node's view of the catalog is fit to answer by: see package serving.
type Certainty interface {
	// Definite returns an error as its caller may get it.
	Definite(context.Context, error) error
	// Current returns nil if the view was fresh when it was called.
	Current(context.Context) error
}

// Config is what logins are made of. Its settings are those of the Config of a broker.
type Config struct {
	Authenticate  bool
	LoopbackUsers []string
	Backends      func(own access.Backend) []access.Backend
	HostToken     string

	Node id.NodeID
	View func() *catalog.View
	// Now is the time of the cluster, on which nodes agree although their wall clocks may not.
	Now func() time.Time
	// Unseen counts logins that were refused without a look.
	Unseen    *atomic.Uint64
	Certainty Certainty
	Commands  *audit.Commands
	Log       *slog.Logger
}

// Logins verifies credentials. One that was verified is remembered by a keyed hash of it,
// in memory alone, until its user changes. All methods may be called concurrently.
type Logins struct {
	cfg       Config
	view      func() *catalog.View
	now       func() time.Time
	log       *slog.Logger
	certainty Certainty
	commands  *audit.Commands
	chain     *access.Chain

	key      [sha256.Size]byte // of this process
	slots    chan struct{}
	waiting  atomic.Int32
	throttle throttle
	// upgrades are hashes that take the place of weaker ones; see upgradeHashes.
	upgrades chan Upgrade

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]*catalog.User
	hashing  map[[sha256.Size]byte]chan struct{} // by credential; closed when that is over
}

// New returns Logins that know no credential yet.
func New(c Config) *Logins {
	l := &Logins{
		cfg: c, view: c.View, now: c.Now, log: c.Log, certainty: c.Certainty, commands: c.Commands,
		throttle: throttle{unseen: c.Unseen},
		slots:    make(chan struct{}, hashesAtOnce(runtime.NumCPU())), verified: map[[sha256.Size]byte]*catalog.User{},
		hashing: map[[sha256.Size]byte]chan struct{}{}, upgrades: make(chan Upgrade, maxUpgrades),
	}
	_, _ = rand.Read(l.key[:]) // never fails
	backends := []access.Backend{ownUsers{l}}
	if c.Backends != nil {
		backends = c.Backends(ownUsers{l})
	}
	l.chain = access.NewChain(backends...)
	return l
}

func hashesAtOnce(processors int) int { return max(1, min(MaxHashes, processors-1)) }

// digest is what stands for a credential.
func (l *Logins) digest(parts ...string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, l.key[:])
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0xff}) // in no UTF-8
	}
	h.Sum(d[:0])
	return d
}

// known reports whether a credential was verified for the user as it is now.
func (l *Logins) known(d [sha256.Size]byte, u *catalog.User) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return u != nil && l.verified[d] == u
}

// Remember notes that a credential was verified for the user as it is now.
func (l *Logins) Remember(d [sha256.Size]byte, u *catalog.User) {
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
func (l *Logins) alone(ctx context.Context, d [sha256.Size]byte) (leave func(), err error) {
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
func (l *Logins) begin(d [sha256.Size]byte, mine chan struct{}) (other chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other = l.hashing[d]; other == nil {
		l.hashing[d] = mine
	}
	return other
}

// end lets those go on that wait for mine.
func (l *Logins) end(d [sha256.Size]byte, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hashing, d)
	close(mine)
}

// tooManyLogins is the refusal above MaxHashWaiters: each waiter holds a client's connection.
func tooManyLogins() *failure.Error {
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "login", RetryAfter: hashRetryAfter,
		Reason: "too many passwords are being checked on this node; try again, or log in with a token",
	}
}

// Enter waits for its turn to hash a password; leave ends it, and its place rests unless the password was right.
func (l *Logins) Enter(ctx context.Context) (leave func(right bool), err error) {
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
func (l *Logins) Hashing() int { return len(l.slots) }

// Authenticates reports whether callers must log in.
func (l *Logins) Authenticates() bool { return l.cfg.Authenticate }

// Login verifies name and password of a caller at an address: some users must be on this
// host (VH-1), and an address may be wrong only so often (LoginTries; ResourceExhausted). The
// zero address is an unknown one. All refusals read the same, whatever is wrong; while this
// node cannot tell, they are Unavailable (EX-16).
func (l *Logins) Login(ctx context.Context, user, secret string, from netip.Addr) (*Identity, error) {
	return l.login(ctx, access.Credentials{User: user, Secret: secret}, from)
}

// LoginCertificate takes a user that a certificate names that the caller's listener has
// verified.
func (l *Logins) LoginCertificate(ctx context.Context, user string, from netip.Addr) (*Identity, error) {
	v := l.view()
	u, known := v.User(user)
	if !known {
		return nil, l.certainty.Definite(ctx, Unauthenticated("there is no user of the name in the certificate, "+strconv.Quote(user)))
	}
	return by(audit.MechanismCertificate)(l.admitted(u, from.Unmap().IsLoopback()))
}

// verify checks a password against the user's hash. Unknown users, and those whose hash is of
// another kind than new ones, take as long: there is one hash of today's cost in any case.
func (l *Logins) verify(ctx context.Context, u *catalog.User, secret string, d [sha256.Size]byte) error {
	done, err := l.alone(ctx, d)
	if err != nil {
		return err
	}
	defer done()
	if l.known(d, u) { // another call verified it meanwhile
		return nil
	}
	leave, err := l.Enter(ctx)
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
		l.log.Warn("a user's password hash cannot be read", "user", u.Name, "error", err)
	}
	if !password.Current(u.PasswordHash, password.Algorithm(u.Algorithm)) {
		if hash, a := password.Upgrade(secret, u.PasswordHash); right {
			l.upgrade(Upgrade{User: u, Credential: d, Hash: hash, Algorithm: string(a)})
		}
	}
	if !right {
		return wrongPassword()
	}
	l.Remember(d, u)
	return nil
}

func wrongPassword() error { return &access.Refused{Reason: access.WrongPassword} }

// admitted is the identity of a user whose secret was right; loopback reports that the call comes from this host.
func (l *Logins) admitted(u *catalog.User, loopback bool) (*Identity, error) {
	if err := l.onLoopback(u.Name, loopback); err != nil {
		return nil, err
	}
	return Of(u), nil
}

// onLoopback refuses users that must be on this host, and are not (VH-1).
func (l *Logins) onLoopback(name string, loopback bool) error {
	if !loopback && slices.Contains(l.cfg.LoopbackUsers, name) {
		return Unauthenticated(access.WrongPassword)
	}
	return nil
}

// MaxPasswordBytes bounds a password: hashing takes a time that grows with it.
const MaxPasswordBytes = 1 << 10
