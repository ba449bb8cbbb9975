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

// Bounds of logging in with what is wrong. Checking a password takes memory and a core for
// some milliseconds, which unauthenticated clients must not have for nothing.
const (
	// LoginTries is how many wrong passwords from one address are checked at once, and
	// LoginTryEvery after what time one more: whatever else comes from there and is not
	// known to be right or wrong is refused unseen. An address is one of IPv4, or a /64 of
	// IPv6.
	LoginTries    = 20
	LoginTryEvery = time.Second
	// maxRefused bounds the credentials that are known to be wrong, maxThrottled the addresses
	// that have sent some lately.
	maxRefused   = 10_000
	maxThrottled = 10_000

	addressBits6 = 64
)

// throttle remembers which credentials were wrong, and how often an address has sent such.
type throttle struct {
	mu      sync.Mutex
	refused map[[sha256.Size]byte]*catalog.User // the user as it was, nil: there was none
	from    map[netip.Prefix]throttled
	unseen  *atomic.Uint64 // credentials that were refused without a look
}

// throttled is an address: when its tries that are left were counted.
type throttled struct {
	left float64
	at   time.Time
}

// wrong reports whether a credential was refused for the user as it is now.
func (t *throttle) wrong(d [sha256.Size]byte, u *catalog.User) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.refused[d]
	return known && was == u
}

// refuse notes a wrong credential.
func (t *throttle) refuse(d [sha256.Size]byte, u *catalog.User) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == nil || len(t.refused) >= maxRefused {
		t.refused = map[[sha256.Size]byte]*catalog.User{}
	}
	t.refused[d] = u
}

// take takes one of an address's tries, if there is one. The zero address has no bound.
func (t *throttle) take(from netip.Addr, now time.Time) bool {
	p := throttleKey(from)
	if !p.IsValid() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x, known := t.from[p]
	if !known {
		x = throttled{left: LoginTries, at: now}
	}
	x.left = min(LoginTries, x.left+float64(now.Sub(x.at))/float64(LoginTryEvery))
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

// giveBack returns the try of a credential that was right.
func (t *throttle) giveBack(from netip.Addr) {
	p := throttleKey(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	if x, known := t.from[p]; known {
		x.left = min(LoginTries, x.left+1)
		t.from[p] = x
	}
}

// forget drops the addresses that have all their tries again, and all if that frees nothing.
func (t *throttle) forget(now time.Time) {
	for p, x := range t.from {
		if x.left+float64(now.Sub(x.at))/float64(LoginTryEvery) >= LoginTries {
			delete(t.from, p)
		}
	}
	if len(t.from) > maxThrottled {
		clear(t.from)
	}
}

// throttleKey is what addresses have their tries in common.
func throttleKey(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = addressBits6
	}
	p, _ := a.Prefix(bits) // of the zero address: the zero prefix
	return p
}

// attempt is one login of an address.
type attempt struct {
	throttle   *throttle
	pending    *pending
	from       netip.Addr
	credential [sha256.Size]byte // digest
	check      *check            // nil: it did not begin one
	outcome    error             // of check
	taken      bool
}

// admit lets the credentials be checked. It waits while the same ones are being checked for another
// login, and fails as that one does, unless its caller left. It refuses what comes from an address
// that was wrong too often.
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
		Class: failure.ResourceExhausted, Kind: "login", RetryAfter: LoginTryEvery,
		Reason: "too many wrong passwords came from address " + t.from.String() + "; wait, and see which program there has an old one",
	}
}

// end lets those go on that have the same credentials.
func (t *attempt) end() {
	if t.check != nil {
		t.pending.end(t.credential, t.check, t.outcome)
	}
}

// done makes the listeners' error of that of a chain. The address gets the try back but for what was found to be wrong: who was
// right, whose password could not be checked, who found no room, and who left before the end. But who leaves after one
// backend has refused would otherwise guess as often as he likes.
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
			Reason: "this node cannot tell now who logs in: " + unavailable.Error() + "; try again",
		}
	}
	return err
}

// hasLeft reports that a login ended because its caller did not wait for the answer.
func hasLeft(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
