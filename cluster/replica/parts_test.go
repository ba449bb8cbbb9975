package replica

import (
	"testing"
	"time"

	"github.com/quorate/quorate/quorumq"
)

// Paused consumers that have gone are forgotten.
func TestPausedForgets(t *testing.T) {
	var b paused
	key := func(i int) quorumq.ConsumerKey {
		return quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: "n", Epoch: 1, Session: uint64(i)}, Tag: 1}
	}
	if b.holds(key(0)) {
		t.Error("an empty set holds somebody")
	}
	for i := range minSweep {
		if got := b.suspects(); got != nil {
			t.Fatalf("%d suspects of %d", len(got), i)
		}
		b.add(key(i))
	}
	if got := b.suspects(); len(got) != minSweep {
		t.Fatalf("%d suspects, want %d", len(got), minSweep)
	}
	if got := b.suspects(); got != nil {
		t.Errorf("%d suspects again", len(got))
	}
	b.remove(key(0))
	if b.holds(key(0)) || !b.holds(key(1)) {
		t.Error("the wrong one is held back")
	}
}

// Only one Expire is on its way at a time, and a time that comes meanwhile is not lost.
func TestOneExpireAtATime(t *testing.T) {
	var x expiry
	if !x.begin(5) || x.begin(7) || x.begin(9) {
		t.Fatal("not one at a time")
	}
	if again := x.end(); again != 9 {
		t.Errorf("time %d came last, want 9", again)
	}
	if !x.begin(9) || x.end() != 0 {
		t.Error("the next one finds the first")
	}
}

// A queue that cannot hibernate is tried again when it has rested twice as long, but at least hourly.
func TestNextRest(t *testing.T) {
	for idle, want := range map[time.Duration]time.Duration{
		0:                  0,
		time.Minute:        2 * time.Minute,
		longestRestless:    2 * longestRestless,
		72 * time.Hour:     73 * time.Hour,
		1000 * time.Minute: 1060 * time.Minute,
	} {
		if got := nextRest(idle); got != want {
			t.Errorf("after a rest of %v it is tried again after %v, want %v", idle, got, want)
		}
	}
}
