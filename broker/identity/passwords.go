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

// Limits of logins.
const (
	// MaxHashes limits how many passwords a node hashes at the same time: each takes memory and one core for some
	// milliseconds. If there are several cores, one is left for everything else.
	MaxHashes = 2
	// MaxHashWaiters limits the calls that wait for their turn to hash. Further calls are refused and may try again.
	MaxHashWaiters = 512
	// restAfterWrong makes guessing slow, from however many addresses: after a wrong password its slot stays empty for
	// this many times as long as the hash took, at most maxRest. So guesses cannot take a processor from publishers.
	restAfterWrong = 2
	maxRest        = 250 * time.Millisecond
	// maxVerified limits the credentials that are remembered as right.
	maxVerified = 10_000
)

// MaxPasswordBytes limits a password, because hashing takes longer for longer ones.
const MaxPasswordBytes = 1 << 10

// maxUpgrades limits the better hashes that wait to be stored. Any more are dropped; a later login makes them again.
const maxUpgrades = 128

// hashRetryAfter is how long a client should wait while too many log in.
const hashRetryAfter = time.Second

// Upgrade is a better hash of a password with which a user has logged in.
type Upgrade struct {
	User            *catalog.User
	Credential      [sha256.Size]byte
	Hash, Algorithm string
}

// passwords verifies passwords against the hashes of their users. It remembers right ones until the user changes: not
// the password but a keyed hash of it, in memory only. mu guards the fields below it.
type passwords struct {
	log      *slog.Logger
	key      [sha256.Size]byte   // random, for this process
	hashing  func(passwords int) // called before each hash; nil: nothing is called
	slots    chan struct{}
	waiting  atomic.Int32
	upgrades chan Upgrade // better hashes that wait to be stored

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]*catalog.User
}

// newPasswords returns passwords that remembers none yet.
func newPasswords(log *slog.Logger, hashing func(int)) *passwords {
	p := &passwords{
		log: log, hashing: hashing, slots: make(chan struct{}, hashesAtOnce(runtime.NumCPU())), upgrades: make(chan Upgrade, maxUpgrades),
		verified: map[[sha256.Size]byte]*catalog.User{},
	}
	_, _ = rand.Read(p.key[:]) // never fails
	return p
}

func hashesAtOnce(processors int) int { return max(1, min(MaxHashes, processors-1)) }

// digest returns a keyed hash that stands for a credential.
func (p *passwords) digest(parts ...string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, p.key[:])
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0xff}) // occurs in no UTF-8, so it separates the parts
	}
	h.Sum(d[:0])
	return d
}

// known reports whether a credential was verified for the user in its present state.
func (p *passwords) known(d [sha256.Size]byte, u *catalog.User) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return u != nil && p.verified[d] == u
}

// Remember records that a credential was verified for the user in its present state.
func (p *passwords) Remember(d [sha256.Size]byte, u *catalog.User) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.verified) >= maxVerified {
		clear(p.verified)
	}
	p.verified[d] = u
}

// tooManyLogins is the refusal above MaxHashWaiters and MaxSameLogins. They are limited because each waiter holds a
// client's connection.
func tooManyLogins() *failure.Error {
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "login", RetryAfter: hashRetryAfter,
		Reason: "too many passwords are being checked on this node; try again, or log in with a token",
	}
}

// Enter waits for its turn to hash a password. leave ends the turn; unless the password was right, the slot then stays
// empty for a while.
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

// Hashing returns how many slots for hashing are in use, including those that stay empty after a wrong password. Each
// hash keeps a processor busy for tens of milliseconds.
func (p *passwords) Hashing() int { return len(p.slots) }

// verify checks a password against the user's hash. In any case it computes one hash of the present kind. So the time
// does not reveal that a user is unknown, or has another kind of hash.
func (p *passwords) verify(ctx context.Context, u *catalog.User, secret string, d [sha256.Size]byte) error {
	if p.known(d, u) { // another login has verified it while this one waited
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

// upgrade hands a better hash to Upgrades, unless too many wait there: a login must not wait for that.
func (p *passwords) upgrade(u Upgrade) {
	select {
	case p.upgrades <- u:
	default:
	}
}

// Upgrades returns the channel of better hashes that are to be stored.
func (p *passwords) Upgrades() <-chan Upgrade { return p.upgrades }
