// Package phase aligns periodic work to the same moments. Waking a processor costs more than most
// periodic work, so an idle node wakes up once for all of it. Nodes whose clocks agree send
// heartbeats at the same moment and find one another awake.
package phase

import "time"

// shortest is the part of a period below which a wait is not worth a wake-up. Such a wait follows
// work that ran a little early because a clock was adjusted.
const shortest = 16

// Wait returns the time from now until work that runs once every period is due: until the wall
// clock shows the next multiple of every, or up to a sixteenth of a period longer than every. A
// clock that is set shortens one wait. Wait is pure, for concurrent use; every must be positive.
func Wait(now time.Time, every time.Duration) time.Duration {
	wait := every - time.Duration(now.UnixNano()%int64(every))
	if wait < every/shortest {
		wait += every
	}
	return wait
}
