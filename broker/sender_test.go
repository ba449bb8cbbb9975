package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// loggedInBroker is testBroker with a user who may write to what the pattern matches.
func loggedInBroker(t testing.TB, write string) (*Broker, *catalog.Catalog, context.Context) {
	t.Helper()
	b := testBroker(t, func(string) enqueuer { return discarding{} }, "q")
	b.cfg.Authenticate = true
	c := testCatalog(t, "q")
	apply(t, c, &catalog.PutUser{User: catalog.User{Name: "u", UserLimits: catalog.NoUserLimits()}})
	apply(t, c, &catalog.SetPermission{Permission: Permission{User: "u", VHost: "/", Write: write}})
	b.view = c.View
	u, _ := c.View().User("u")
	return b, c, WithIdentity(t.Context(), &Identity{user: u})
}

func apply(t testing.TB, c *catalog.Catalog, cmd catalog.Command) {
	t.Helper()
	if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// The check of a stream's publishes allocates nothing, whatever exchanges take turns.
func TestPermittedPublishAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not those of a normal build")
	}
	b, _, ctx := loggedInBroker(t, ".*")
	s, err := b.NewSender(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v := b.view()
	if n := testing.AllocsPerRun(1000, func() {
		for _, x := range []string{"", "amq.fanout", "amq.topic"} {
			if d := s.right(v, "/", x); d.err != nil {
				t.Fatal(d.err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A publish without a sender is refused where clients must log in, and so is one without
// an identity.
func TestNobodyPublishes(t *testing.T) {
	b, _, _ := loggedInBroker(t, ".*")
	var e *Error
	if err := publish(t, b, &Publish{VHost: "/", RoutingKey: "q"}).Err; !errors.As(err, &e) || !e.Unauthenticated {
		t.Errorf("without a sender: %v", err)
	}
	if _, err := b.NewSender(t.Context()); !errors.As(err, &e) || !e.Unauthenticated {
		t.Errorf("without an identity: %v", err)
	}
}

// PUB-1, MSG-3: somebody else's user_id is the last thing that a sender is told of before the
// bounds of a message.
func TestUserIDIsCheckedLast(t *testing.T) {
	b, _, ctx := loggedInBroker(t, "^amq\\.default$|^nix$")
	s, err := b.NewSender(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		p     Publish
		class Class
		arg   string
	}{
		{"no right", Publish{Exchange: "amq.fanout"}, AccessRefused, ""},
		{"no exchange", Publish{Exchange: "nix"}, NotFound, ""},
		{"expiration", Publish{Properties: message.Properties{Expiration: "soon"}}, PreconditionFailed, "expiration"},
		{"CC", Publish{Headers: message.Table{{Name: "CC", Value: message.String("q")}}}, PreconditionFailed, "header CC"},
		{"user_id alone", Publish{RoutingKey: "q"}, PreconditionFailed, "user_id"},
	} {
		row.p.VHost, row.p.Sender, row.p.Properties.UserID = "/", s, "somebody"
		var e *Error
		if err := publish(t, b, &row.p).Err; !errors.As(err, &e) || e.Class != row.class || row.arg != "" && e.Arg != row.arg {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// VH-6: no exchange and no key is routed to without the right, as patterns, permissions
// and users change under a sender.
func TestSenderFollowsTheCatalog(t *testing.T) {
	b, c, ctx := loggedInBroker(t, "^amq\\.default$")
	s, err := b.NewSender(ctx)
	if err != nil {
		t.Fatal(err)
	}
	try := func(x string) error {
		return publish(t, b, &Publish{VHost: "/", Exchange: x, RoutingKey: "q", Sender: s}).Err
	}
	if err := try(""); err != nil {
		t.Error(err)
	}
	if try("amq.fanout") == nil {
		t.Error("an exchange that does not match is published to")
	}
	apply(t, c, &catalog.SetPermission{Permission: Permission{User: "u", VHost: "/", Write: "fanout"}})
	if err := try("amq.fanout"); err != nil {
		t.Error(err)
	}
	if try("") == nil {
		t.Error("the default exchange is published to without the right")
	}
	apply(t, c, &catalog.ClearPermission{User: "u", VHost: "/"})
	if try("amq.fanout") == nil {
		t.Error("a cleared permission still counts")
	}
}

// One credential is hashed by one call at a time; all others that have it wait, and no other
// credential does.
func TestLoginsOfOneCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogins(new(atomic.Uint64))
		d := l.digest("password", "u", "secret")
		leave, err := l.alone(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		var hashing, most atomic.Int32
		for range 5 {
			go func() {
				leave, err := l.alone(t.Context(), d)
				if err != nil {
					t.Error(err)
					return
				}
				if n := hashing.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				hashing.Add(-1)
				leave()
			}()
		}
		synctest.Wait()
		if n := hashing.Load(); n != 0 {
			t.Errorf("%d calls hash what another one hashes", n)
		}
		other, err := l.alone(t.Context(), l.digest("password", "u", "another"))
		if err != nil {
			t.Error(err)
		}
		other()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.alone(ended, d); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has left: %v", err)
		}
		l.waiting.Add(MaxHashWaiters)
		var e *Error
		if _, err := l.alone(t.Context(), d); !errors.As(err, &e) || e.Class != ResourceExhausted {
			t.Errorf("too many: %v", err)
		}
		l.waiting.Add(-MaxHashWaiters)
		leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := most.Load(); n != 1 {
			t.Errorf("%d calls hashed it at the same time", n)
		}
		if len(l.hashing) != 0 {
			t.Errorf("%d credentials are left", len(l.hashing))
		}
	})
}

// After a wrong password its place rests for twice as long as it was hashed; after a right one it does not.
func TestHashesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogins(new(atomic.Uint64))
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
			leave, err := l.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(x.takes)
			leave(x.right)
			began := time.Now()
			next, err := l.enter(t.Context())
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

// Passwords in flight are bounded; who comes too many is told to come back.
func TestTooManyLogins(t *testing.T) {
	l := newLogins(new(atomic.Uint64))
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 2, 64: MaxHashes} {
		if n := hashesAtOnce(processors); n != want {
			t.Errorf("%d processors: %d hashes at a time, want %d", processors, n, want)
		}
	}
	for range cap(l.slots) {
		if _, err := l.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.enter(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: %v", err)
	}
	l.waiting.Store(MaxHashWaiters)
	var e *Error
	if _, err := l.enter(t.Context()); !errors.As(err, &e) || e.Class != ResourceExhausted || e.RetryAfter == 0 {
		t.Errorf("too many: %v", err)
	}
}
