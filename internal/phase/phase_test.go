package phase

import (
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) time.Time { return time.Unix(1_800_000_000, 0).Add(d) }
	const ms = time.Millisecond
	for _, c := range []struct {
		name        string
		now         time.Time
		every, want time.Duration
	}{
		{"at the moment itself", at(0), 250 * ms, 250 * ms},
		{"a little late", at(2 * ms), 250 * ms, 248 * ms},
		{"in between", at(130 * ms), 250 * ms, 120 * ms},
		{"a little early", at(249 * ms), 250 * ms, 251 * ms},
		{"a longer period falls on the same moments", at(300 * ms), time.Second, 700 * ms},
		{"before the clock's epoch", time.Unix(0, 0).Add(-10 * ms), 250 * ms, 260 * ms},
	} {
		if got := Wait(c.now, c.every); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// A clock that nobody sets is met at each multiple, whatever it began with.
	now := at(17 * ms)
	for range 100 {
		now = now.Add(Wait(now, 250*ms))
		if now.UnixNano()%int64(250*ms) != 0 {
			t.Fatalf("woken at %v", now)
		}
	}
}
