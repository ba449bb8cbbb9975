package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// Limits of wrong logins. Checking a password takes memory and a core for some milliseconds, which unauthenticated
// clients must not get for free.
const (
	// LoginBurst is how many wrong passwords from one address are checked at once, and LoginInterval is the time after
	// which one more is. Beyond that, credentials from this address are refused without a check, unless they are known
	// to be right or wrong. An address is an IPv4 address, or a /64 of IPv6.
	LoginBurst    = 20
	LoginInterval = time.Second
	// maxRefused limits the credentials that are remembered as wrong, maxThrottled the addresses that have recently
	// sent some.
	maxRefused   = 10_000
	maxThrottled = 10_000

	addressBits6 = 64
)

// throttle remembers which credentials were wrong, and how many tries each address has left. mu guards refused and
// from.
type throttle struct {
	mu      sync.Mutex
	refused map[[sha256.Size]byte]*catalog.User // the user as it was then, or nil
	from    map[netip.Prefix]throttled
	unseen  *atomic.Uint64 // credentials that were refused without a check
}

// throttled is how many tries an address had left, and when that was counted.
type throttled struct {
	left float64
	at   time.Time
}

// wrong reports whether a credential was refused for the user in its present state.
func (t *throttle) wrong(d [sha256.Size]byte, u *catalog.User) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.refused[d]
	return known && was == u
}

// refuse remembers a wrong credential.
func (t *throttle) refuse(d [sha256.Size]byte, u *catalog.User) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == nil || len(t.refused) >= maxRefused {
		t.refused = map[[sha256.Size]byte]*catalog.User{}
	}
	t.refused[d] = u
}

// take uses up one of an address's tries, if one is left. The zero address has any number of tries.
func (t *throttle) take(from netip.Addr, now time.Time) bool {
	p := throttleKey(from)
	if !p.IsValid() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x, known := t.from[p]
	if !known {
		x = throttled{left: LoginBurst, at: now}
	}
	x.left = min(LoginBurst, x.left+float64(now.Sub(x.at))/float64(LoginInterval))
	x.at = now
	ok := x.left >= 1
	if ok {
		x.left--
	} else {
		t.unseen.Add(1)
	}
	if t.from == nil {
		t.from = map[netip.Prefix]throttled{}
	}
	t.from[p] = x
	if len(t.from) > maxThrottled {
		t.forget(now)
	}
	return ok
}

// giveBack returns a try to an address, because its credential was right or could not be checked.
func (t *throttle) giveBack(from netip.Addr) {
	p := throttleKey(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	if x, known := t.from[p]; known {
		x.left = min(LoginBurst, x.left+1)
		t.from[p] = x
	}
}

// forget drops the addresses that have all their tries again. If that is not enough, it drops all of them.
func (t *throttle) forget(now time.Time) {
	for p, x := range t.from {
		if x.left+float64(now.Sub(x.at))/float64(LoginInterval) >= LoginBurst {
			delete(t.from, p)
		}
	}
	if len(t.from) > maxThrottled {
		clear(t.from)
	}
}

// throttleKey returns the prefix that shares its tries: an IPv4 address or a /64 of IPv6.
func throttleKey(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = addressBits6
	}
	p, _ := a.Prefix(bits) // for the zero address: the zero prefix
	return p
}

// attempt is one login from an address. It belongs to one goroutine.
type attempt struct {
	throttle   *throttle
	pending    *pending
	from       netip.Addr
	credential [sha256.Size]byte // digest
	check      *check            // nil: another login has begun the check, or none has
	outcome    error             // of check
	taken      bool              // it has used up a try of its address
}

// admit returns nil when the credentials may be checked. While the same ones are being checked for another login, it
// waits, and then fails in the same way, unless that login ended without a result. It refuses addresses that have sent
// too many wrong credentials.
func (t *attempt) admit(ctx context.Context) error {
	for t.check == nil {
		c, mine, err := t.pending.begin(t.credential)
		switch {
		case err != nil:
			return err
		case mine:
			t.check, t.outcome = c, errNotChecked
			continue
		}
		select {
		case <-c.over:
		case <-ctx.Done():
			t.pending.leave(c)
			return ctx.Err()
		}
		if !errors.Is(c.err, errNotChecked) {
			return c.err
		}
	}
	if t.taken = t.throttle.take(t.from, time.Now()); t.taken {
		return nil
	}
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "login", RetryAfter: LoginInterval,
		Reason: "too many wrong passwords came from address " + t.from.String() + "; wait, and see which program there has an old one",
	}
}

// end ends the check that this attempt began, so that logins with the same credentials go on.
func (t *attempt) end() {
	if t.check != nil {
		t.pending.end(t.credential, t.check, t.outcome)
	}
}

// done turns the error of the backends into one for listeners. The address gets its try back unless the credentials
// were found to be wrong. So it gets the try back if they were right, if no backend or no room was available to check
// them, or if the client left before the end. But if the client leaves after one backend has refused it, the try stays
// used, because the client could otherwise guess without limit.
func (t *attempt) done(err error) error {
	if t.taken && !hasLeft(err) {
		t.outcome = err
	}
	if no, wrong := errors.AsType[*access.Refused](err); wrong {
		return Unauthenticated(no.Reason)
	}
	unavailable, is := errors.AsType[*access.Unavailable](err)
	_, guessed := errors.AsType[*access.Unsure](err)
	if t.taken && (is || !guessed || !hasLeft(err)) {
		t.throttle.giveBack(t.from)
	}
	if is {
		return &failure.Error{
			Class: failure.Unavailable, Kind: "login", RetryAfter: cmp.Or(unavailable.RetryAfter, hashRetryAfter), Cause: err,
			Reason: "this node cannot check credentials now: " + unavailable.Error() + "; try again",
		}
	}
	return err
}

// hasLeft reports whether a login ended because its caller did not wait for the result.
func hasLeft(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
