package export

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/latency"
)

const block = 256 << 10

// world is a Pacer and what its node counts. Times are those of a synctest bubble, in which pauses end exactly.
type world struct {
	confirms, syncs latency.Histogram
	*Pacer
}

func newWorld(floor int64) *world {
	w := &world{}
	w.Pacer = New(Config{
		Floor:    floor,
		Confirms: func() *latency.Histogram { return &w.confirms }, Syncs: func() *latency.Histogram { return &w.syncs },
	})
	return w
}

// read exports for a time, while confirms and syncs take so long, and returns the bytes per second.
func (w *world) read(t *testing.T, during, confirm, sync time.Duration) float64 {
	t.Helper()
	n, began := 0, time.Now()
	counted := began
	for time.Since(began) < during {
		if err := w.Wait(t.Context(), block); err != nil {
			t.Fatal(err)
		}
		n += block
		for ; time.Since(counted) >= time.Millisecond; counted = counted.Add(time.Millisecond) {
			w.confirms.Observe(confirm, 1)
			w.syncs.Observe(sync, 1)
		}
	}
	return float64(n) / during.Seconds()
}

// An export gets faster while clients do not feel it, is slowed to its floor when they do, and recovers.
func TestPace(t *testing.T) {
	const quick = 2 * time.Millisecond
	for _, row := range []struct {
		name          string
		confirm, sync time.Duration
		cause         Cause
	}{
		{"confirms take longer", 2 * quick, quick, CauseConfirms},
		{"syncs take longer", quick, 2 * quick, CauseSyncs},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(8 << 20)
				end := w.Begin()
				w.read(t, 2*time.Second, quick, quick)
				calm := w.read(t, time.Second, quick, quick)
				if calm < 100e6 {
					t.Errorf("%.0f bytes a second while nobody feels it", calm)
				}
				if s := w.Stats(); s.Running != 1 || s.Slowed[CauseConfirms]+s.Slowed[CauseSyncs]+s.Slowed[CauseProcessor] != 0 || s.Bytes == 0 {
					t.Errorf("%+v", s)
				}
				w.read(t, 2*time.Second, row.confirm, row.sync)
				slow := w.read(t, time.Second, row.confirm, row.sync)
				if slow < 8<<20 || slow > 10<<20 {
					t.Errorf("%.0f bytes a second while clients feel it, the floor is %d", slow, 8<<20)
				}
				s := w.Stats()
				for _, c := range Causes() {
					if (s.Slowed[c] > 0) != (c == row.cause) {
						t.Errorf("slowed: %v", s.Slowed)
					}
				}
				w.read(t, 3*time.Second, quick, quick)
				if again := w.read(t, time.Second, quick, quick); again < 100e6 {
					t.Errorf("%.0f bytes a second when it is over", again)
				}
				end()
				if s := w.Stats(); s.Running != 0 || s.Rate != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// An export that follows another one goes on at its pace; a later one begins at the floor.
func TestFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(8 << 20)
		end := w.Begin()
		w.read(t, 2*time.Second, time.Millisecond, time.Millisecond)
		end()
		for _, row := range []struct {
			after time.Duration
			floor bool
		}{{time.Second, false}, {2 * remember, true}} {
			time.Sleep(row.after)
			end := w.Begin()
			if s := w.Stats(); (s.Rate == 8<<20) != row.floor {
				t.Errorf("after %v it begins with %.0f bytes a second", row.after, s.Rate)
			}
			end()
		}
	})
}

// Goroutines that run late slow an export.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(8 << 20)
		defer w.Begin()()
		for range 200 {
			w.paused(2 * maxLate)
			if err := w.Wait(t.Context(), block); err != nil {
				t.Fatal(err)
			}
			w.paused(2 * maxLate)
		}
		if s := w.Stats(); s.Slowed[CauseProcessor] == 0 || s.Rate != 8<<20 {
			t.Errorf("%+v", s)
		}
	})
}

// A load that stays higher is what is usual after some time.
func TestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(8 << 20)
		defer w.Begin()()
		w.read(t, time.Second, time.Millisecond, time.Millisecond)
		w.read(t, time.Minute, 3*time.Millisecond, time.Millisecond)
		if got := w.read(t, time.Second, 3*time.Millisecond, time.Millisecond); got < 100e6 {
			t.Errorf("%.0f bytes a second a minute later", got)
		}
	})
}

// All exports of a node share the pace, and one that waits ends with its context.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1 << 20)
		endA, endB := w.Begin(), w.Begin()
		began := time.Now()
		for range 4 {
			if err := errors.Join(w.Wait(t.Context(), 1<<20), w.Wait(t.Context(), 1<<20)); err != nil {
				t.Fatal(err)
			}
			for range 20 { // somebody feels it
				w.syncs.Observe(time.Millisecond, 1)
			}
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("8 MiB took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := errors.Join(w.Wait(ctx, 1<<30), w.Wait(ctx, block)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that ends early: %v", err)
		}
		endA()
		if w.Stats().Running != 1 {
			t.Error("one ended, and none is left")
		}
		endB()
	})
}
