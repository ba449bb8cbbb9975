package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
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

// MaxPasswordBytes bounds a password: hashing takes a time that grows with it.
const MaxPasswordBytes = 1 << 10

// maxUpgrades bounds the hashes that wait to be put in the place of weak ones; what is above waits for a later login.
const maxUpgrades = 128

// hashRetryAfter is when a client should come again while too many log in.
const hashRetryAfter = time.Second

// Upgrade is a better hash of the password by which a user has logged in.
type Upgrade struct {
	User            *catalog.User
	Credential      [sha256.Size]byte
	Hash, Algorithm string
}

// passwords verifies passwords against the hashes of their users. One that was verified is remembered by a keyed hash of
// it, in memory alone, until its user changes. mu guards what stands below it.
type passwords struct {
	log      *slog.Logger
	key      [sha256.Size]byte   // of this process
	hashing  func(passwords int) // called before each hash; nil: nothing is
	slots    chan struct{}
	waiting  atomic.Int32
	upgrades chan Upgrade // hashes that are to take the place of weaker ones

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]*catalog.User
}

// newPasswords returns passwords of which none was verified yet.
func newPasswords(log *slog.Logger, hashing func(int)) *passwords {
	p := &passwords{
		log: log, hashing: hashing, slots: make(chan struct{}, hashesAtOnce(runtime.NumCPU())), upgrades: make(chan Upgrade, maxUpgrades),
		verified: map[[sha256.Size]byte]*catalog.User{},
	}
	_, _ = rand.Read(p.key[:]) // never fails
	return p
}

func hashesAtOnce(processors int) int { return max(1, min(MaxHashes, processors-1)) }

// digest is what stands for a credential.
func (p *passwords) digest(parts ...string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, p.key[:])
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0xff}) // in no UTF-8
	}
	h.Sum(d[:0])
	return d
}

// known reports whether a credential was verified for the user as it is now.
func (p *passwords) known(d [sha256.Size]byte, u *catalog.User) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return u != nil && p.verified[d] == u
}

// Remember notes that a credential was verified for the user as it is now.
func (p *passwords) Remember(d [sha256.Size]byte, u *catalog.User) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.verified) >= maxVerified {
		clear(p.verified)
	}
	p.verified[d] = u
}

// tooManyLogins is the refusal above MaxHashWaiters and MaxSameLogins: each waiter holds a client's connection.
func tooManyLogins() *failure.Error {
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "login", RetryAfter: hashRetryAfter,
		Reason: "too many passwords are being checked on this node; try again, or log in with a token",
	}
}

// Enter waits for its turn to hash a password; leave ends it, and its place rests unless the password was right.
func (p *passwords) Enter(ctx context.Context) (leave func(right bool), err error) {
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > MaxHashWaiters {
		return nil, tooManyLogins()
	}
	select {
	case p.slots <- struct{}{}:
		if p.hashing != nil {
			p.hashing(len(p.slots))
		}
		began := time.Now()
		return func(right bool) {
			if right {
				<-p.slots
				return
			}
			time.AfterFunc(min(maxRest, restAfterWrong*time.Since(began)), func() { <-p.slots })
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hashing returns how many passwords are being hashed, each of which keeps a processor busy for tens of milliseconds, or were
// just now.
func (p *passwords) Hashing() int { return len(p.slots) }

// verify checks a password against the user's hash. Unknown users, and those whose hash is of
// another kind than new ones, take as long: there is one hash of today's cost in any case.
func (p *passwords) verify(ctx context.Context, u *catalog.User, secret string, d [sha256.Size]byte) error {
	if p.known(d, u) { // by another login that this one waited for
		return nil
	}
	leave, err := p.Enter(ctx)
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
		p.log.Warn("a user's password hash cannot be read", "user", u.Name, "error", err)
	}
	if !password.Current(u.PasswordHash, password.Algorithm(u.Algorithm)) {
		if hash, a := password.Upgrade(secret, u.PasswordHash); right {
			p.upgrade(Upgrade{User: u, Credential: d, Hash: hash, Algorithm: string(a)})
		}
	}
	if !right {
		return wrongPassword()
	}
	p.Remember(d, u)
	return nil
}

func wrongPassword() error { return &access.Refused{Reason: access.WrongPassword} }

// upgrade puts a better hash into Upgrades, unless too many wait there. A login does not wait.
func (p *passwords) upgrade(u Upgrade) {
	select {
	case p.upgrades <- u:
	default:
	}
}

// Upgrades are hashes that are to be stored.
func (p *passwords) Upgrades() <-chan Upgrade { return p.upgrades }
