package broker

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
)

// An address has some tries at once and then one each second; others have their own.
func TestTries(t *testing.T) {
	x := tries{unseen: new(atomic.Uint64)}
	now := time.Unix(1000, 0)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2")
	taken := func(from netip.Addr, most int) (n int) {
		for range most {
			if x.take(from, now) {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		from        netip.Addr
		later       time.Duration
		tries, want int
	}{
		{a, 0, 100, LoginTries},
		{b, 0, 1, 1},
		{netip.MustParseAddr("10.0.0.2"), 0, 100, LoginTries - 1},
		{a, 3 * LoginTryEvery, 100, 3},
		{a, time.Hour, 100, LoginTries},
		{netip.Addr{}, 0, 100, 100},
		{netip.MustParseAddr("2001:db8::1"), 0, 100, LoginTries},
		{netip.MustParseAddr("2001:db8::ffff"), 0, 1, 0},
		{netip.MustParseAddr("2001:db8:0:1::1"), 0, 1, 1},
	} {
		now = now.Add(step.later)
		if n := taken(step.from, step.tries); n != step.want {
			t.Errorf("%v after %v: %d tries of %d, want %d", step.from, step.later, n, step.tries, step.want)
		}
	}
	x.giveBack(a)
	if n := taken(a, 5); n != 1 {
		t.Errorf("%d tries after one was given back", n)
	}
	// What is remembered is bounded.
	for i := range 3 * maxTriers {
		x.take(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(x.from) > maxTriers {
		t.Errorf("%d addresses", len(x.from))
	}
}

// A wrong password is checked once; then it is known to be wrong until its user changes.
func TestWrongPasswords(t *testing.T) {
	l := newLogins(new(atomic.Uint64))
	u, changed := &catalog.User{Name: "u"}, &catalog.User{Name: "u"}
	d := l.digest("password", "u", "wrong")
	l.tries.refuse(d, u)
	if !l.tries.wrong(d, u) || l.tries.wrong(d, changed) || l.tries.wrong(d, nil) || l.tries.wrong(l.digest("password", "u", "other"), u) {
		t.Error("it is wrong for the user as it was, and nobody else")
	}
	for i := range 2 * maxRefused {
		l.tries.refuse(l.digest(fmt.Sprint(i)), nil)
	}
	if n := len(l.tries.refused); n > maxRefused {
		t.Errorf("%d credentials are remembered", n)
	}
}
