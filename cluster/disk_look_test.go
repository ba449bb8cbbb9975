package cluster

import (
	"testing"
	"time"
)

// A write that comes to hang is seen as soon as it has taken too long, whenever it began
// and although a disk at rest is looked at less often.
func TestHangIsSeenInTime(t *testing.T) {
	t.Parallel()
	base := time.Unix(1_800_000_000, 0)
	for began := time.Duration(0); began < 2*diskRest; began += 7 * time.Millisecond {
		looks := 0
		for now := time.Duration(0); ; looks++ {
			age := max(0, now-began)
			if age >= diskStall {
				if age != diskStall {
					t.Errorf("a write that began at %v was seen to hang after %v", began, age)
				}
				break
			}
			now += lookAfter(base.Add(now), age)
		}
		if looks > 6 {
			t.Errorf("%d looks", looks)
		}
	}
	if again := lookAfter(base, diskStall); again != diskTick {
		t.Errorf("while it hangs it is looked at after %v", again)
	}
}
