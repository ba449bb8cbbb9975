package replica

import (
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// A queue that is used every few minutes wakes a few times, and then stays awake; one that is used seldom hibernates each
// time as soon as ever.
func TestWakefulness(t *testing.T) {
	const after, day = time.Minute, 24 * time.Hour
	for _, x := range []struct {
		every time.Duration // it is used
		wakes int           // in a day, at most
	}{
		{30 * time.Second, 0},
		{2 * time.Minute, 1},
		{3 * time.Minute, 2},
		{4*time.Minute + time.Second, int(day / (4 * time.Minute))},
		{5 * time.Minute, int(day / (5 * time.Minute))},
		{time.Hour, 24},
	} {
		var w wakefulness
		wakes := 0
		for range day / x.every {
			slept := x.every - w.rest(after)
			if slept <= 0 {
				continue
			}
			wakes++
			w = w.next(slept, after)
			if rest := w.rest(after); rest < after || rest > 4*after || x.every >= 5*after && rest != after {
				t.Fatalf("used every %v, it has to rest for %v", x.every, rest)
			}
		}
		if wakes > x.wakes || wakes == 0 && x.every > after {
			t.Errorf("used every %v, it wakes %d times a day, want at most %d", x.every, wakes, x.wakes)
		}
	}
}

// A queue that is woken soon has to rest for longer before it hibernates again, and as long as ever when it has hibernated for
// long, or since before its node's start.
func TestWokenSoon(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, func(c *Config) { c.HibernateAfter = time.Hour })
	uid := h.declare("q")
	rests := func(want time.Duration) {
		t.Helper()
		h.led(uid)
		if m := h.Member(uid); m.rested(want-1, time.Hour) || !m.rested(want, time.Hour) {
			t.Errorf("it does not have to rest for %v, but for %v", want, m.wakeful.rest(time.Hour))
		}
	}
	wakes := func(since func(*asleep) time.Time) {
		t.Helper()
		h.lay(uid)
		h.mu.Lock()
		a := *h.asleep[uid]
		a.since = since(&a)
		h.asleep[uid] = &a
		h.mu.Unlock()
		h.Wake(uid)
	}
	soon := func(a *asleep) time.Time { return a.since }
	rests(time.Hour)
	for _, want := range []time.Duration{2 * time.Hour, 4 * time.Hour, 4 * time.Hour} {
		wakes(soon)
		rests(want)
	}
	wakes(func(a *asleep) time.Time { return a.since.Add(-4 * time.Hour) })
	rests(time.Hour)
	wakes(soon)
	rests(2 * time.Hour)
	wakes(func(*asleep) time.Time { return time.Time{} })
	rests(time.Hour)
}

// A queue not all of whose members could be closed rests for as long as that asks for, or its wakes, whichever is longer; until
// it is used.
func TestRestless(t *testing.T) {
	m := &Member{uid: id.FirstQueueUID, wakeful: 1, restless: 3 * time.Minute}
	for _, x := range []struct {
		idle time.Duration
		may  bool
	}{
		{2 * time.Minute, false}, // it is restless
		{3 * time.Minute, true},
		{time.Second, false}, // it was used, and is no longer restless
		{time.Minute, false},
		{2 * time.Minute, true},
	} {
		if got := m.rested(x.idle, time.Minute); got != x.may {
			t.Errorf("idle for %v it may hibernate: %v", x.idle, got)
		}
	}
}
