package identity

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// testLogins returns logins of a catalog, of which the Config holds what matters.
func testLogins(v func() *catalog.View, c Config) *Logins {
	c.View, c.Now, c.Unseen, c.Certainty = v, time.Now, new(atomic.Uint64), certain{}
	c.Log = slog.New(slog.DiscardHandler)
	return New(c)
}

// certain is a node whose view is never behind.
type certain struct{}

func (certain) Definite(_ context.Context, err error) error { return err }
func (certain) Current(context.Context) error               { return nil }

// One credential is hashed by one call at a time; all others that have it wait, and no other
// credential does.
func TestLoginsOfOneCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLogins(catalog.New().View, Config{})
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
		var e *failure.Error
		if _, err := l.alone(t.Context(), d); !errors.As(err, &e) || e.Class != failure.ResourceExhausted {
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

// Passwords in flight are bounded; who comes too many is told to come back.
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
