package metadata

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/nodeclock"
)

func able() bool { return true }

// EX-16: the age of a view counts from the beginning of the attempt that has proven it.
func TestAssuranceAges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAssurance(5*time.Second, nodeclock.Machine())
		if _, known := a.age(); known || a.fresh() || a.serves.Load() {
			t.Error("before an attempt the view has an age, is fresh or serves")
		}
		changed := a.news()
		began := a.clock.Read()
		time.Sleep(time.Second)
		a.attemptEnded(began, nil, able)
		<-changed
		if age, known := a.age(); !known || age != time.Second {
			t.Errorf("age %v, %v after an attempt of a second", age, known)
		}
		time.Sleep(4 * time.Second)
		if !a.fresh() {
			t.Error("not fresh at its greatest age")
		}
		time.Sleep(time.Millisecond)
		if a.fresh() {
			t.Error("fresh above its greatest age")
		}
		if !a.serves.Load() {
			t.Error("a view that was confirmed does not serve any more because it is old")
		}
		changed = a.news()
		a.revoke()
		<-changed
		if _, known := a.age(); known || a.serves.Load() {
			t.Error("it serves, or has an age, after the node was refused")
		}
		a.attemptEnded(a.clock.Read(), nil, func() bool { return false })
		if a.fresh() || a.serves.Load() {
			t.Error("an attempt that was under way confirmed the view of a node that was refused meanwhile")
		}
	})
}

// EX-16: who needs a fresh view after a pause waits for an attempt that began after it, and nobody
// waits while attempts fail.
func TestAssuranceAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAssurance(time.Second, nodeclock.Machine())
		a.attemptEnded(a.clock.Read(), nil, able)
		old := a.clock.Read()
		time.Sleep(time.Minute)
		got := make(chan error)
		go func() { got <- a.await(t.Context()) }()
		<-a.ask
		a.attemptEnded(old, nil, able) // it began before the pause
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("an attempt of before the pause was enough: %v", err)
		default:
		}
		a.attemptEnded(a.clock.Read(), nil, able)
		if err := <-got; err != nil {
			t.Error(err)
		}

		time.Sleep(time.Minute)
		begin := time.Now()
		if err := a.await(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != proofWait {
			t.Errorf("without an answer: %v after %v", err, time.Since(begin))
		}
		failure := errors.New("no majority")
		a.attemptEnded(a.clock.Read(), failure, able)
		begin = time.Now()
		if err := a.await(t.Context()); !errors.Is(err, failure) || time.Since(begin) != 0 {
			t.Errorf("while attempts fail: %v after %v", err, time.Since(begin))
		}
		a.attemptEnded(a.clock.Read(), nil, able)
		a.attemptEnded(a.clock.Read(), failure, able)
		if err := a.await(t.Context()); err != nil {
			t.Errorf("while the view is fresh yet: %v", err)
		}
	})
}

// suspended is the clock of a machine whose monotonic clock stands still while it is suspended.
type suspended struct{ lost time.Duration }

func (c *suspended) Elapsed() time.Duration { return time.Hour }
func (c *suspended) Read() clock.Reading {
	return clock.Reading{Elapsed: time.Hour, Wall: time.Hour + c.lost}
}

// EX-16: what is not there is not answered from the view of before the machine was suspended.
func TestAssuranceAgesWhileSuspended(t *testing.T) {
	t.Parallel()
	c := &suspended{}
	a := newAssurance(time.Second, c)
	a.attemptEnded(c.Read(), nil, able)
	if !a.fresh() {
		t.Error("a view that was confirmed now is not fresh")
	}
	c.lost = time.Minute
	if age, known := a.age(); !known || age != time.Minute || a.fresh() {
		t.Errorf("age %v, %v after a minute, fresh: %v", age, known, a.fresh())
	}
	c.lost = -time.Minute // the wall clock was set back: it shows nothing
	if age, _ := a.age(); age != 0 || !a.fresh() {
		t.Errorf("age %v, fresh: %v at once after an attempt", age, a.fresh())
	}
}

// who must not act on what others have changed waits for an attempt that began after the call,
// however fresh the view is, and keeps waiting while attempts fail.
func TestAssuranceConfirm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAssurance(time.Minute, nodeclock.Machine())
		began := a.clock.Read()
		a.attemptEnded(began, nil, able)
		time.Sleep(time.Second)
		got := make(chan error, 1)
		waits := func(after string) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-got:
				t.Fatalf("it is confirmed after %s: %v", after, err)
			default:
			}
		}
		go func() { got <- a.confirm(t.Context()) }()
		waits("no attempt")
		<-a.ask
		a.attemptEnded(began, nil, able)
		waits("an attempt that began before")
		time.Sleep(time.Second)
		failure := errors.New("no majority")
		a.attemptEnded(a.clock.Read(), failure, able)
		waits("a failure")
		a.attemptEnded(a.clock.Read(), nil, func() bool { return false })
		waits("an attempt of a node that is refused")
		a.attemptEnded(a.clock.Read(), nil, able)
		if err := <-got; err != nil {
			t.Error(err)
		}

		a.attemptEnded(a.clock.Read(), failure, able)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.confirm(ctx); !errors.Is(err, failure) {
			t.Errorf("in the end: %v, want the reason", err)
		}
	})
}
