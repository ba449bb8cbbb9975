package disk

import (
	"testing"
	"time"

	"github.com/quorate/quorate/wal"
)

// How long a write may take follows from the disk's pace, the lack of processors, and how late
// this node itself is.
func TestUntilStall(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name                            string
		age, usual, lenient, late, left time.Duration
	}{
		{"nothing is written", 0, 450 * ms, 0, 0, 450 * ms},
		{"a write is young", 100 * ms, 450 * ms, 0, 0, 350 * ms},
		{"it hangs", 450 * ms, 450 * ms, 0, 0, 0},
		{"it hangs for long", time.Hour, 450 * ms, 0, 0, 0},
		{"the disk is slow", 450 * ms, 900 * ms, 0, 0, 450 * ms},
		{"processors are lacking", 450 * ms, 450 * ms, 300 * ms, 0, 300 * ms},
		{"the disk is slow and processors are lacking", 1000 * ms, 900 * ms, 2000 * ms, 0, 500 * ms},
		{"nothing excuses more", wal.MostStall, 900 * ms, 2000 * ms, 0, 0},
		{"the process was stopped", 5000 * ms, 450 * ms, 0, 4900 * ms, 350 * ms},
		{"and longer than the write takes", 100 * ms, 450 * ms, 0, 4900 * ms, 450 * ms},
		{"it hung before that", 5000 * ms, 450 * ms, 0, 1000 * ms, 0},
		{"the look is early", 100 * ms, 450 * ms, 0, -10 * ms, 350 * ms},
	} {
		if left := untilStall(c.age, c.usual, c.lenient, c.late); left != c.left {
			t.Errorf("%s: it hangs in %v, want %v", c.name, left, c.left)
		}
	}
}

// A write that comes to hang is seen as soon as it has taken too long, whenever it began
// and although a disk at rest is looked at less often.
func TestHangIsSeenInTime(t *testing.T) {
	t.Parallel()
	const every = 250 * time.Millisecond
	base := time.Unix(1_800_000_000, 0)
	for _, limit := range []time.Duration{wal.LeastStall, wal.MostStall} {
		for began := time.Duration(0); began < 2*every; began += 7 * time.Millisecond {
			looks := 0
			for now := time.Duration(0); ; looks++ {
				age := max(0, now-began)
				left := untilStall(age, limit, 0, 0)
				if left == 0 {
					if age != limit {
						t.Errorf("a write that began at %v was seen to hang after %v", began, age)
					}
					break
				}
				now += lookAfter(base.Add(now), left, every)
			}
			if looks > 11 {
				t.Errorf("%d looks", looks)
			}
		}
	}
	if again := lookAfter(base, 0, every); again != hangTick {
		t.Errorf("while it hangs it is looked at after %v", again)
	}
}
