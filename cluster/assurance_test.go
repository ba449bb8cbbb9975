package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/id"
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
		a.took(began, nil, able)
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
		a.took(a.clock.Read(), nil, func() bool { return false })
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
		a.took(a.clock.Read(), nil, able)
		old := a.clock.Read()
		time.Sleep(time.Minute)
		got := make(chan error)
		go func() { got <- a.await(t.Context()) }()
		<-a.ask
		a.took(old, nil, able) // it began before the pause
		synctest.Wait()
		select {
		case err := <-got:
			t.Fatalf("an attempt of before the pause was enough: %v", err)
		default:
		}
		a.took(a.clock.Read(), nil, able)
		if err := <-got; err != nil {
			t.Error(err)
		}

		time.Sleep(time.Minute)
		begin := time.Now()
		if err := a.await(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != proofWait {
			t.Errorf("without an answer: %v after %v", err, time.Since(begin))
		}
		failure := errors.New("no majority")
		a.took(a.clock.Read(), failure, able)
		begin = time.Now()
		if err := a.await(t.Context()); !errors.Is(err, failure) || time.Since(begin) != 0 {
			t.Errorf("while attempts fail: %v after %v", err, time.Since(begin))
		}
		a.took(a.clock.Read(), nil, able)
		a.took(a.clock.Read(), failure, able)
		if err := a.await(t.Context()); err != nil {
			t.Errorf("while the view is fresh yet: %v", err)
		}
	})
}

// EX-16: a node serves when its view was confirmed; left alone it goes on, but does not tell what
// there is not; refused or without its catalog group it serves nobody.
func TestServes(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.CatalogStaleness = 500 * time.Millisecond })
	n.start("a", "b", "c")
	poll(t, "views stay fresh without any change", func() error {
		for name, x := range n.nodes {
			if age, known := x.ViewAge(); !x.Serves() || !known || age > time.Minute || x.Hindrance() != nil {
				return errors.New(string(name) + " is not")
			}
		}
		return nil
	})
	// At rest nothing is written for it.
	settled := n.nodes["a"].catalog.group.Stats().LastIndex
	for _, x := range n.nodes {
		age, _ := x.ViewAge()
		poll(t, "another attempt", func() error {
			if now, _ := x.ViewAge(); now >= age {
				age = now
				return errors.New("not yet")
			}
			return nil
		})
	}
	if now := n.nodes["a"].catalog.group.Stats().LastIndex; now != settled {
		t.Errorf("the catalog's log went from %d to %d at rest", settled, now)
	}

	n.stop("b")
	n.stop("c")
	a := n.nodes["a"]
	poll(t, "a view goes stale", func() error {
		if a.Fresh() {
			return errors.New("it is fresh")
		}
		return nil
	})
	poll(t, "the reason", func() error {
		if err := a.AwaitFresh(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) {
			return errors.New("is not told")
		}
		return nil
	})
	if !a.Serves() {
		t.Error("a node that was confirmed serves nobody because it is alone")
	}
	changed := a.ServesChanged()
	a.catalog.refuse(errors.New("of another life"))
	<-changed
	if why := a.Hindrance(); a.Serves() || why == nil || why.Error() != "of another life" {
		t.Errorf("a refused node serves: %v, %v", a.Serves(), why)
	}
}

// EX-16: a node that starts alone serves nobody, and begins when there is a majority.
func TestStartsAlone(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	for _, i := range []id.NodeID{"a", "b", "c"} {
		n.stop(i)
	}
	n.launch("a")
	a := n.nodes["a"]
	poll(t, "attempts fail", func() error {
		s := a.catalog.assurance
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.failing == nil {
			return errors.New("none has")
		}
		return nil
	})
	if why := a.Hindrance(); a.Serves() || a.Fresh() || why == nil {
		t.Errorf("it serves: %v, is fresh: %v, %v", a.Serves(), a.Fresh(), why)
	}
	n.launch("b")
	poll(t, "it serves", a.Hindrance)
}

// suspended is the clock of a machine whose monotonic clock stands still while it is suspended.
type suspended struct{ lost time.Duration }

func (c *suspended) Elapsed() time.Duration { return time.Hour }
func (c *suspended) Read() clock.Reading {
	return clock.Reading{Elapsed: time.Hour, Wall: time.Hour + c.lost}
}

// EX-16: what is not there is not told by the view of before the machine was suspended.
func TestAssuranceAgesWhileSuspended(t *testing.T) {
	t.Parallel()
	c := &suspended{}
	a := newAssurance(time.Second, c)
	a.took(c.Read(), nil, able)
	if !a.fresh() {
		t.Error("a view that was confirmed now is not fresh")
	}
	c.lost = time.Minute
	if age, known := a.age(); !known || age != time.Minute || a.fresh() {
		t.Errorf("age %v, %v after a minute, fresh: %v", age, known, a.fresh())
	}
	c.lost = -time.Minute // the wall clock was set back: it tells nothing
	if age, _ := a.age(); age != 0 || !a.fresh() {
		t.Errorf("age %v, fresh: %v at once after an attempt", age, a.fresh())
	}
}
