package forwarding

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/quorumq"
)

// Dead letters of a queue go to their target in a term of its leader and in no other time (DL-22), by the rule in force for
// the queue. What a term has counted stays when it ends (DL-52).
func TestDeadLettersOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(t)
		target, source := w.declare("target", quorumq.DeadLetterDisabled), w.declare("source", quorumq.DeadLetterAtLeastOnce)
		arrived := func(what string, want uint64) {
			t.Helper()
			synctest.Wait()
			if got := w.overview(target).Ready; got != want {
				t.Errorf("%s: %d dead letters have arrived, want %d", what, got, want)
			}
		}
		w.discard(source, "a")
		f.Backlog(source)
		arrived("before the term", 0)
		f.Leading(source)
		f.Backlog(source)
		arrived("in the term", 1)
		f.Ceased(&term{w, source.uid}) // of another term, whose end comes late
		w.discard(source, "b")
		f.Backlog(source)
		arrived("after the end of another term", 2)
		f.Ceased(source)
		w.discard(source, "c")
		f.Backlog(source)
		time.Sleep(time.Minute)
		arrived("after the term", 2)
		next := &term{w, source.uid}
		f.Leading(next)
		f.Backlog(source) // of the term before
		arrived("by news of the term before", 2)
		f.Backlog(next)
		arrived("in the next term", 3)
		if got := f.Totals(); got.Confirmed != 3 || got.Blocked != 0 {
			t.Errorf("totals %+v", got)
		}
		f.Close()
		f.Leading(source)
		w.discard(source, "d")
		f.Backlog(source)
		time.Sleep(time.Minute)
		arrived("after Close", 3)
	})
}

// retried and lostOf are what a node has counted since its start.
func retried(f *Forwarders) uint64 {
	sum := f.Totals()
	return sum.Retries.Sum()
}

func lostOf(f *Forwarders) uint64 {
	sum := f.Totals()
	return sum.Lost.Sum()
}

// While a target cannot be reached its dead letters wait, with a cause and an event when that begins and ends (ST-5); a hint
// that the target may take some again is enough (DL-24).
func TestDeadLettersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(t)
		target, source := w.declare("target", quorumq.DeadLetterDisabled), w.declare("source", quorumq.DeadLetterAtLeastOnce)
		w.setDown(true)
		w.discard(source, "a")
		f.Leading(source)
		f.Backlog(source)
		time.Sleep(10 * deadletter.DefaultMaxBackoff)
		synctest.Wait()
		d, sum := f.Figures(source), f.Totals()
		causes := slices.Collect(maps.Keys(d.Waiting))
		if d.BacklogTrouble == "" || len(causes) != 1 || d.Waiting[causes[0]] != 1 || d.Retries[causes[0]] < 10 || sum.Blocked != 1 {
			t.Errorf("%+v, totals %+v", d, sum)
		}
		if got, want := w.events(), []string{"dead_letter_blocked " + causes[0]}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		w.setDown(false)
		f.Retry(target.uid)
		synctest.Wait()
		if w.overview(target).Ready != 1 || w.overview(source).Backlog != 0 {
			t.Errorf("after the hint: %+v", w.overview(target))
		}
		if got, want := w.events(), []string{"dead_letter_unblocked "}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if d := f.Figures(source); d.BacklogTrouble != "" || len(d.Waiting) > 0 {
			t.Errorf("%+v", d)
		}
		retries := retried(f)
		if f.Ceased(source); retried(f) != retries || retries == 0 {
			t.Errorf("%d retries, %d when the term has ended", retries, retried(f))
		}
		if d := f.Figures(source); d.Waiting != nil || d.Retries != nil {
			t.Errorf("after the term: %+v", d)
		}
	})
}

// Copies that are sent at most once arrive in order, and are lost where they cannot be sent (DL-10, DL-11).
func TestCopiesOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(t)
		target, source := w.declare("target", quorumq.DeadLetterDisabled), w.declare("source", quorumq.DeadLetterAtMostOnce)
		for _, body := range []string{"a", "b", "c"} {
			w.discard(source, body)
		}
		f.Copies(source, slices.Clone(w.copies[:1]))
		f.Leading(source)
		f.Copies(source, slices.Clone(w.copies[1:]))
		synctest.Wait()
		if got := w.overview(target).Ready; got != 2 {
			t.Errorf("%d copies have arrived, want the two of the term", got)
		}
		w.setDown(true)
		f.Copies(source, slices.Clone(w.copies[:1]))
		synctest.Wait()
		var lost uint64
		for _, n := range f.Figures(source).Lost {
			lost += n
		}
		if f.Ceased(source); lost != 1 || lostOf(f) != 1 {
			t.Errorf("%d are lost in the term, %d in all", lost, lostOf(f))
		}
	})
}

// While copies wait to be sent, the term must not end by itself: they would be lost.
func TestCopying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(t)
		target, source := w.declare("target", quorumq.DeadLetterDisabled), w.declare("source", quorumq.DeadLetterAtMostOnce)
		for _, body := range []string{"a", "b"} {
			w.discard(source, body)
		}
		is := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := f.Copying(source); got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		is("before the term", false)
		f.Leading(source)
		is("without copies", false)
		w.held = make(chan struct{})
		f.Copies(source, slices.Clone(w.copies))
		is("while the target has no room", true)
		if f.Copying(&term{w, source.uid}) {
			t.Error("another term has copies")
		}
		close(w.held)
		is("when they are sent", false)
		if got := w.overview(target).Ready; got != 2 {
			t.Errorf("%d copies have arrived, want 2", got)
		}
	})
}

// nothing leaves for a target from the moment a purge begins until it was answered; a queue that is not led here
// has nothing to stop.
func TestPurging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := newWorld(t)
		target, source := w.declare("target", quorumq.DeadLetterDisabled), w.declare("source", quorumq.DeadLetterAtLeastOnce)
		calls := 0
		f.Purging(source, func(arrived uint64, release func()) {
			calls++
			release()
		})
		f.Leading(source)
		var release func()
		f.Purging(source, func(_ uint64, r func()) { calls, release = calls+1, r })
		synctest.Wait()
		if calls != 2 {
			t.Fatalf("%d purges may begin, want 2", calls)
		}
		w.discard(source, "a")
		f.Backlog(source)
		time.Sleep(time.Minute)
		if got := w.overview(target).Ready; got != 0 {
			t.Errorf("%d dead letters left during the purge", got)
		}
		release()
		synctest.Wait()
		if got := w.overview(target).Ready; got != 1 {
			t.Errorf("%d dead letters left after the purge, want 1", got)
		}
	})
}

// DL-25: a view of unknown age is as good as an old one.
func TestCurrent(t *testing.T) {
	for age, want := range map[Catalog]bool{
		serving(0): true, serving(deadletter.MaxViewAge): true, serving(deadletter.MaxViewAge + 1): false, unproven{}: false,
	} {
		if got := (Router{Catalog: age}).Current(); got != want {
			t.Errorf("%v: %v", age, got)
		}
	}
}

// unproven is a catalog whose view was never confirmed.
type unproven struct{ serving }

func (unproven) ViewAge() (time.Duration, bool) { return 0, false }

// The forwarder decides by the errors of package deadletter, and what a gateway said stays in them.
func TestDeadLetterErrors(t *testing.T) {
	for _, row := range []struct{ from, want error }{
		{traffic.ErrNoSuchQueue, deadletter.ErrNoTarget},
		{traffic.ErrRefused, deadletter.ErrRefused},
		{traffic.ErrUnknownOutcome, deadletter.ErrDoubtful},
		{traffic.ErrUnavailable, traffic.ErrUnavailable},
		{nil, nil},
	} {
		if got := deadLetterError(row.from); !errors.Is(got, row.want) || !errors.Is(got, row.from) {
			t.Errorf("%v becomes %v, want %v", row.from, got, row.want)
		}
	}
	for _, other := range []error{deadletter.ErrNoTarget, deadletter.ErrRefused, deadletter.ErrDoubtful} {
		if errors.Is(deadLetterError(traffic.ErrUnavailable), other) {
			t.Errorf("what was not sent is %v", other)
		}
	}
}
