package identity

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/catalog"
)

// An address has some tries at once and then one a second. Each address has its own.
func TestTries(t *testing.T) {
	x := throttle{unseen: new(atomic.Uint64)}
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
		from           netip.Addr
		later          time.Duration
		throttle, want int
	}{
		{a, 0, 100, LoginBurst},
		{b, 0, 1, 1},
		{netip.MustParseAddr("10.0.0.2"), 0, 100, LoginBurst - 1},
		{a, 3 * LoginInterval, 100, 3},
		{a, time.Hour, 100, LoginBurst},
		{netip.Addr{}, 0, 100, 100},
		{netip.MustParseAddr("2001:db8::1"), 0, 100, LoginBurst},
		{netip.MustParseAddr("2001:db8::ffff"), 0, 1, 0},
		{netip.MustParseAddr("2001:db8:0:1::1"), 0, 1, 1},
	} {
		now = now.Add(step.later)
		if n := taken(step.from, step.throttle); n != step.want {
			t.Errorf("%v after %v: %d tries of %d, want %d", step.from, step.later, n, step.throttle, step.want)
		}
	}
	x.giveBack(a)
	if n := taken(a, 5); n != 1 {
		t.Errorf("%d tries after one was given back", n)
	}
	// The number of addresses that are remembered is limited.
	for i := range 3 * maxThrottled {
		x.take(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(x.from) > maxThrottled {
		t.Errorf("%d addresses", len(x.from))
	}
}

// A credential that was found to be wrong costs a try. A client gets the try back if it leaves
// before the check, or if there is no room for the check. It does not get the try back if it leaves
// after one backend has refused it, because it could then guess without limit.
func TestTriesAreGivenBack(t *testing.T) {
	wrong := &access.Refused{Reason: access.WrongPassword}
	for what, row := range map[string]struct {
		backends []error // their answers
		back     bool
	}{
		"it was right":                     {[]error{nil}, true},
		"it was wrong":                     {[]error{wrong}, false},
		"the caller has left":              {[]error{context.Canceled}, true},
		"the caller's time is over":        {[]error{context.DeadlineExceeded}, true},
		"too many log in":                  {[]error{tooManyLogins()}, true},
		"a directory is down":              {[]error{wrong, &access.Unavailable{Backend: "ldap", Cause: io.EOF}}, true},
		"the caller has left after a no":   {[]error{wrong, context.Canceled}, false},
		"its time is over after a no":      {[]error{wrong, fmt.Errorf("ask: %w", context.DeadlineExceeded)}, false},
		"the first one is unavailable, no": {[]error{context.Canceled, wrong}, false},
		"it was wrong for one, then right": {[]error{wrong, nil}, true},
	} {
		var backends []access.Backend
		for _, err := range row.backends {
			backends = append(backends, firmBackend{err})
		}
		l := testLogins(catalog.New().View, Config{Backends: func(access.Backend) []access.Backend { return backends }})
		from := netip.MustParseAddr("192.0.2.1")
		for i := range 2 * LoginBurst {
			c := access.Credentials{User: "u", Secret: "s", Now: time.Now()}
			try := l.attempt(c, "", from)
			_, _, err := l.chain.Authenticate(t.Context(), c, func() error { return try.admit(t.Context()) })
			_ = try.done(err)
			if try.end(); !try.taken && (row.back || i < LoginBurst) {
				t.Errorf("%s: there is no try left after %d", what, i)
				break
			} else if try.taken && !row.back && i > LoginBurst+10 { // some seconds on a slow machine
				t.Errorf("%s: try %d is still let in", what, i)
				break
			}
		}
	}
}

// firmBackend is a backend that always gives the same answer.
type firmBackend struct{ err error }

func (firmBackend) Name() string { return "firm" }
func (firmBackend) Tokens() bool { return false }
func (a firmBackend) Authenticate(context.Context, access.Credentials) (*access.Identity, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &access.Identity{Name: "u"}, nil
}

// A wrong password is checked once. Then it is known to be wrong until its user changes.
func TestWrongPasswords(t *testing.T) {
	l := testLogins(catalog.New().View, Config{})
	u, changed := &catalog.User{Name: "u"}, &catalog.User{Name: "u"}
	d := l.digest("password", "u", "wrong")
	l.throttle.refuse(d, u)
	if !l.throttle.wrong(d, u) || l.throttle.wrong(d, changed) || l.throttle.wrong(d, nil) || l.throttle.wrong(l.digest("password", "u", "other"), u) {
		t.Error("it is wrong for the user as it was, and nobody else")
	}
	for i := range 2 * maxRefused {
		l.throttle.refuse(l.digest(fmt.Sprint(i)), nil)
	}
	if n := len(l.throttle.refused); n > maxRefused {
		t.Errorf("%d credentials are remembered", n)
	}
}
