// Package phase lets periodic work fall on the same moments. To wake a processor up costs
// more than what most periodic work does, so a node at rest wakes up once for all of it,
// and nodes whose clocks agree heartbeat at the same moment and find one another awake.
package phase

import "time"

// shortest is the part of a period below which a wait is not worth its wake-up: it is that
// of work that ran a little early by a clock that was adjusted.
const shortest = 16

// Wait returns how long after now work is due that is done once every period: until the
// wall clock shows the next multiple of it, and at most a sixteenth longer than it. A clock
// that is set shortens one wait. It is pure, for concurrent use; every must be positive.
func Wait(now time.Time, every time.Duration) time.Duration {
	wait := every - time.Duration(now.UnixNano()%int64(every))
	if wait < every/shortest {
		wait += every
	}
	return wait
}
