package identity

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/password"
)

// testLogins returns the logins of a catalog; c needs only the fields that matter to the test.
func testLogins(v func() *catalog.View, c Config) *Logins {
	c.View, c.Now, c.Unseen, c.Certainty = v, time.Now, new(atomic.Uint64), certain{}
	c.Log = slog.New(slog.DiscardHandler)
	return New(c)
}

// certain is a node whose view is never behind.
type certain struct{}

func (certain) Definite(_ context.Context, err error) error { return err }
func (certain) Current(context.Context) error               { return nil }

// slowBackend takes a second for each answer. Without an answer, nothing is known about the credentials.
type slowBackend struct {
	firmBackend
	asked *atomic.Int32
}

func (b slowBackend) Authenticate(ctx context.Context, c access.Credentials) (*access.Identity, error) {
	b.asked.Add(1)
	select {
	case <-time.After(time.Second):
		return b.firmBackend.Authenticate(ctx, c)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Logins with one credential are checked one at a time, and all the others get its answer, however many come at once
// from an address. Together they use one try, and none if the credential is right.
func TestLoginsOfOneCredential(t *testing.T) {
	const many = 5 * LoginBurst
	from := netip.MustParseAddr("192.0.2.1")
	for what, row := range map[string]struct {
		answer error
		class  failure.Class
		asked  int32 // at most
		takes  time.Duration
	}{
		"right":     {nil, failure.Internal, many, 2 * time.Second}, // a backend that forgets is asked again
		"wrong":     {wrongPassword(), failure.AccessRefused, 1, time.Second},
		"no answer": {&access.Unavailable{Backend: "b", Cause: io.EOF}, failure.Unavailable, 1, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			l := testLogins(catalog.New().View, Config{Backends: func(access.Backend) []access.Backend {
				return []access.Backend{slowBackend{firmBackend{row.answer}, &asked}}
			}})
			errs := make(chan error, many)
			began := time.Now()
			for range many {
				go func() {
					try := l.attempt(access.Credentials{User: "u", Secret: "s"}, "", from)
					defer try.end()
					_, _, err := l.chain.Authenticate(t.Context(), access.Credentials{User: "u", Secret: "s"}, func() error { return try.admit(t.Context()) })
					errs <- try.done(err)
				}()
			}
			synctest.Wait()
			if n := asked.Load(); n != 1 {
				t.Errorf("%s: %d are checked at the same time", what, n)
			}
			other := l.attempt(access.Credentials{User: "u", Secret: "another"}, "", from)
			if err := other.admit(t.Context()); err != nil {
				t.Errorf("%s: another credential: %v", what, err)
			}
			_ = other.done(nil)
			other.end()
			for range many {
				err := <-errs
				if e, _ := errors.AsType[*failure.Error](err); (row.answer != nil || err != nil) && (e == nil || e.Class != row.class) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if n := asked.Load(); n > row.asked || time.Since(began) > row.takes {
				t.Errorf("%s: %d were checked, in %v", what, n, time.Since(began))
			}
			if len(l.pending.of) != 0 {
				t.Errorf("%s: %d credentials are left", what, len(l.pending.of))
			}
		})
	}
}

// The same holds for users of the catalog: an application has more connections than its address has tries, and all come
// at once.
func TestManyOfOneUser(t *testing.T) {
	c := catalog.New()
	u := catalog.User{Name: "u", PasswordHash: fastHash("right"), Algorithm: string(password.RabbitSHA256), UserLimits: catalog.NoUserLimits()}
	if r := c.Apply(1, 1, &catalog.PutUser{User: u}); r.Err != nil {
		t.Fatal(r.Err)
	}
	l := testLogins(c.View, Config{})
	var all sync.WaitGroup
	for range 5 * LoginBurst {
		all.Go(func() {
			if _, err := l.Login(t.Context(), "u", "right", netip.MustParseAddr("192.0.2.1")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A password is not wrong because the view of a node that has just started lacked the user, or had the password of
// before, until the password was hashed (EX-16).
func TestLoginWhileViewIsBehind(t *testing.T) {
	user := func(secret string) *catalog.PutUser {
		return &catalog.PutUser{User: catalog.User{Name: "u", PasswordHash: fastHash(secret), Algorithm: string(password.RabbitSHA256), UserLimits: catalog.NoUserLimits()}}
	}
	for what, before := range map[string][]*catalog.PutUser{"no user": nil, "another password": {user("before")}, "the same": {user("right")}} {
		c := catalog.New()
		for _, p := range before {
			if r := c.Apply(c.View().Index()+1, 1, p); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		behind := c.View()
		if r := c.Apply(c.View().Index()+1, 1, user("right")); r.Err != nil {
			t.Fatal(r.Err)
		}
		for secret, is := range map[string]bool{"right": true, "wrong": false} {
			var hashes atomic.Int32
			l := testLogins(func() *catalog.View {
				if hashes.Load() == 0 {
					return behind
				}
				return c.View()
			}, Config{Hashing: func(int) { hashes.Add(1) }})
			_, err := l.Login(t.Context(), "u", secret, netip.MustParseAddr("192.0.2.1"))
			if e, _ := errors.AsType[*failure.Error](err); (err == nil) != is || e != nil && e.Class != failure.AccessRefused {
				t.Errorf("%s, the password %s: %v", what, secret, err)
			}
		}
	}
}

// Logins that wait for the check of their credentials can leave, and their number is limited.
func TestWaitingForACheck(t *testing.T) {
	l := testLogins(catalog.New().View, Config{})
	attempt := func() *attempt { return l.attempt(access.Credentials{User: "u", Secret: "s"}, "", netip.Addr{}) }
	first := attempt()
	if err := first.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * MaxSameLogins {
		gone := attempt()
		if err := gone.admit(ended); !errors.Is(err, context.Canceled) {
			t.Fatalf("a caller that has left: %v", err)
		}
		gone.end()
	}
	first.check.waiting = MaxSameLogins
	if e, is := errors.AsType[*failure.Error](attempt().admit(ended)); !is || e.Class != failure.ResourceExhausted || e.RetryAfter == 0 {
		t.Errorf("too many: %v", e)
	}
	first.end() // its caller has left
	next := attempt()
	if err := next.admit(t.Context()); err != nil || next.check == nil {
		t.Errorf("the next one: %v", err)
	}
	next.end()
}

// After a wrong password its slot rests for twice as long as the hash took; after a right one it does not.
func TestHashesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLogins(catalog.New().View, Config{})
		l.slots = make(chan struct{}, 1)
		for _, x := range []struct {
			right       bool
			takes, rest time.Duration
		}{
			{true, 30 * time.Millisecond, 0},
			{false, 30 * time.Millisecond, 60 * time.Millisecond},
			{false, time.Second, maxRest},
			{true, time.Second, 0},
		} {
			leave, err := l.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(x.takes)
			leave(x.right)
			began := time.Now()
			next, err := l.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d != x.rest {
				t.Errorf("%+v: it rests for %v", x, d)
			}
			next(true)
		}
	})
}

// Hashing is called before each hash, with the number of hashes at that moment.
func TestHashesAreAnnounced(t *testing.T) {
	var called []int
	l := testLogins(catalog.New().View, Config{Hashing: func(passwords int) { called = append(called, passwords) }})
	l.slots = make(chan struct{}, 2)
	for range 2 {
		leave, err := l.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer leave(true)
	}
	if !slices.Equal(called, []int{1, 2}) {
		t.Errorf("called with %d, want 1 and 2", called)
	}
}

// The number of passwords in flight is limited. A login above that is refused with the advice to come back.
func TestTooManyLogins(t *testing.T) {
	l := testLogins(catalog.New().View, Config{})
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 2, 64: MaxHashes} {
		if n := hashesAtOnce(processors); n != want {
			t.Errorf("%d processors: %d hashes at a time, want %d", processors, n, want)
		}
	}
	for range cap(l.slots) {
		if _, err := l.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Enter(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: %v", err)
	}
	l.waiting.Store(MaxHashWaiters)
	var e *failure.Error
	if _, err := l.Enter(t.Context()); !errors.As(err, &e) || e.Class != failure.ResourceExhausted || e.RetryAfter == 0 {
		t.Errorf("too many: %v", err)
	}
}
