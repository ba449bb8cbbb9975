package inventory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
)

// Many objects share one listing until it is too old, and what the operator makes is in it at once.
func TestListingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, loads := t.Context(), 0
		l := newListing(func(context.Context) (map[string]int, error) {
			loads++
			time.Sleep(time.Second) // of the bubble
			return map[string]int{"a": loads}, nil
		})
		got := make(chan int)
		for range 100 {
			go func() {
				n, _, _ := l.get(ctx, "a", time.Minute)
				got <- n
			}()
		}
		for range 100 {
			if n := <-got; n != 1 {
				t.Errorf("listing %d, want 1", n)
			}
		}
		l.put(ctx, "b", 7)
		if n, ok, err := l.get(ctx, "b", time.Minute); n != 7 || !ok || err != nil {
			t.Errorf("%d, %v, %v", n, ok, err)
		}
		l.remove(ctx, "a")
		if _, ok, _ := l.get(ctx, "a", time.Minute); ok || loads != 1 {
			t.Errorf("found %v after %d listings", ok, loads)
		}
		time.Sleep(2 * time.Minute)
		if n, ok, err := l.get(ctx, "a", time.Minute); n != 2 || !ok || err != nil || loads != 2 {
			t.Errorf("%d, %v, %v after %d listings", n, ok, err, loads)
		}
	})
}

// Who waits for a listing gives up when its context ends; the listing continues for the others.
func TestListingCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListing(func(context.Context) (map[string]int, error) {
			time.Sleep(time.Minute)
			return map[string]int{"a": 1}, nil
		})
		done := make(chan error)
		go func() {
			_, _, err := l.get(t.Context(), "a", time.Second)
			done <- err
		}()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := l.get(short, "a", time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A cluster that does not answer is left alone, longer each time, and one call tries for all. An error of the broker
// itself is an answer.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, calls := NewBreaker(), 0
		silence, answer := errors.New("timeout"), error(&client.Error{Class: client.PreconditionFailed})
		do := func(err error) error { return b.Do(func() error { calls++; return err }) }
		if err := do(answer); !errors.Is(err, answer) {
			t.Fatal(err)
		}
		var u *UnavailableError
		wait := time.Duration(0)
		for range 12 {
			if err := do(silence); !errors.As(err, &u) || !errors.Is(err, silence) {
				t.Fatal(err)
			}
			if u.Wait < wait || u.Wait > LongestWait*5/4 {
				t.Errorf("wait %v after %v", u.Wait, wait)
			}
			before := calls
			if err := do(nil); !errors.As(err, &u) || calls != before {
				t.Errorf("%v: the cluster was asked while it was to be left alone", err)
			}
			wait = min(u.Wait, LongestWait)
			time.Sleep(u.Wait + time.Millisecond)
		}
		if wait < LongestWait {
			t.Errorf("the last wait is %v, want %v", wait, LongestWait)
		}
		entered, leave := make(chan struct{}), make(chan struct{})
		done := make(chan error)
		go func() { done <- b.Do(func() error { close(entered); <-leave; return nil }) }()
		<-entered
		if err := do(nil); !errors.As(err, &u) {
			t.Errorf("%v: a second call tried at the same time", err)
		}
		close(leave)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := do(nil); err != nil {
			t.Error(err)
		}
		_ = do(silence)
		b.Reset()
		if err := b.Ready(); err != nil {
			t.Errorf("after a reset: %v", err)
		}
	})
}

// Calls that fail together count as one failure: they were all under way when the cluster went.
func TestBreakerCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, done := NewBreaker(), make(chan error)
		for range 8 {
			go func() { done <- b.Do(func() error { time.Sleep(10 * time.Second); return errors.New("timeout") }) }()
		}
		for range 8 {
			if <-done == nil {
				t.Error("a call without an answer succeeded")
			}
		}
		var u *UnavailableError
		if err := b.Ready(); !errors.As(err, &u) || u.Wait > FirstWait*5/4 {
			t.Errorf("%v", err)
		}
	})
}
