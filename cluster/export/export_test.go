package export

import (
	"context"
	"errors"
	"math/rand/v2"
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

// takes says how long a confirm or a sync takes while an export may read so many bytes per second; 0: none.
type takes func(rate float64) time.Duration

// always is what takes as long whatever an export does.
func always(d time.Duration) takes { return func(float64) time.Duration { return d } }

// above is what takes twice as long while an export reads faster than a rate.
func above(most float64, d time.Duration) takes {
	return func(rate float64) time.Duration {
		if rate > most {
			return 2 * d
		}
		return d
	}
}

// read exports for a time, while a confirm and a sync end each millisecond, and returns the bytes per second and the
// highest pace.
func (w *world) read(t *testing.T, during time.Duration, confirm, sync takes) (achieved, highest float64) {
	t.Helper()
	n, began := 0, time.Now()
	counted := began
	for time.Since(began) < during {
		rate := w.Stats().Rate
		highest = max(highest, rate)
		if err := w.Wait(t.Context(), block); err != nil {
			t.Fatal(err)
		}
		n += block
		for ; time.Since(counted) >= time.Millisecond; counted = counted.Add(time.Millisecond) {
			if d := confirm(rate); d > 0 {
				w.confirms.Observe(d, 1)
			}
			if d := sync(rate); d > 0 {
				w.syncs.Observe(d, 1)
			}
		}
	}
	return float64(n) / during.Seconds(), highest
}

// An export gets faster while clients do not feel it, is slowed to its floor when they do, and recovers.
func TestPace(t *testing.T) {
	const floor = 8 << 20
	quick, slow := always(2*time.Millisecond), above(floor*1.05, 2*time.Millisecond)
	for _, row := range []struct {
		name          string
		confirm, sync takes
		cause         Cause
	}{
		{"confirms take longer", slow, quick, CauseConfirms},
		{"syncs take longer", quick, slow, CauseSyncs},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(floor)
				end := w.Begin()
				w.read(t, 2*time.Second, quick, quick)
				if calm, _ := w.read(t, time.Second, quick, quick); calm < 100e6 {
					t.Errorf("%.0f bytes a second while nobody feels it", calm)
				}
				if s := w.Stats(); s.Running != 1 || s.Slowed[CauseConfirms]+s.Slowed[CauseSyncs]+s.Slowed[CauseProcessor] != 0 || s.Bytes == 0 {
					t.Errorf("%+v", s)
				}
				w.read(t, 5*time.Second, row.confirm, row.sync)
				if felt, _ := w.read(t, 3*time.Second, row.confirm, row.sync); felt < floor || felt > 1.25*floor {
					t.Errorf("%.0f bytes a second while clients feel it, the floor is %d", felt, floor)
				}
				s := w.Stats()
				for _, c := range Causes() {
					if (s.Slowed[c] > 0) != (c == row.cause) {
						t.Errorf("slowed: %v", s.Slowed)
					}
				}
				w.read(t, 5*time.Second, quick, quick)
				if again, _ := w.read(t, time.Second, quick, quick); again < 100e6 {
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

// What clients feel grows with the pace, and by chance: the pace stays near the one that they just do not feel, because
// even a short time above it would show in the worst confirms.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(8 << 20)
		defer w.Begin()()
		r := rand.New(rand.NewPCG(1, 2))
		longer := func(rate float64) time.Duration { // an exponential distribution, 1.4 times as long at 80 MB/s
			return time.Duration(float64(time.Millisecond) * r.ExpFloat64() * (1 + rate/200e6))
		}
		w.read(t, 2*time.Second, longer, longer)
		achieved, highest := w.read(t, 20*time.Second, longer, longer)
		if achieved < 40e6 || achieved > 90e6 || highest > 140e6 {
			t.Errorf("%.0f bytes a second, at most %.0f", achieved, highest)
		}
	})
}

// An export that follows another one continues at its pace; a later one begins at the floor.
func TestFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(8 << 20)
		end := w.Begin()
		w.read(t, 2*time.Second, always(time.Millisecond), always(time.Millisecond))
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

// A load that stays higher is what is usual after some time, also if clients send little.
func TestForgets(t *testing.T) {
	for _, row := range []struct {
		name  string
		every int
	}{{"many confirms", 1}, {"few confirms", 20}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(8 << 20)
				defer w.Begin()()
				n := 0
				some := func(d time.Duration) takes {
					return func(float64) time.Duration {
						if n++; n%row.every == 0 {
							return d
						}
						return 0
					}
				}
				w.read(t, time.Second, some(time.Millisecond), always(time.Millisecond))
				w.read(t, time.Minute, some(3*time.Millisecond), always(time.Millisecond))
				if got, _ := w.read(t, time.Second, some(3*time.Millisecond), always(time.Millisecond)); got < 100e6 {
					t.Errorf("%.0f bytes a second a minute later", got)
				}
			})
		})
	}
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
