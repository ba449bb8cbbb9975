package disk

import (
	"time"

	"github.com/quorate/quorate/internal/phase"
	"github.com/quorate/quorate/wal"
)

// untilStall returns how long it takes until a write is held to hang, 0 if it is now. age is
// for how long it has been under way, and usual for how long one may be on this disk. A node
// that lacks processors finishes its writes late as well, and it is worse to move its leaders
// than to move those of a disk that hangs a little later: lenient is added, up to
// wal.MostStall. So much as the look is late the process may have been stopped, and its writes
// with it: that is taken off.
func untilStall(age, usual, lenient, late time.Duration) time.Duration {
	limit := min(usual+lenient, wal.MostStall)
	return max(0, limit-max(0, age-max(0, late)))
}

// lookAfter returns the time to the next check of the disk. left is how long it takes until a write counts as
// hanging; the check comes just then. Without news the disk is checked at fixed intervals, at the moments of
// heartbeats, which wake the node anyway. The interval is shorter than any write may take, so that each write is seen
// before it counts as hanging.
func lookAfter(now time.Time, left, every time.Duration) time.Duration {
	if left <= 0 {
		return hangTick
	}
	return min(phase.Wait(now, every), left)
}

// hangTick is the time between checks while a write hangs.
const hangTick = 250 * time.Millisecond
