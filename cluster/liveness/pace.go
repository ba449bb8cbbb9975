package liveness

import "time"

// pace is how long elections take on this node at present, so that a candidate whose votes wait for slow disks does
// not count as stuck: ending its election would write more, and make others campaign before it could win. Many
// elections at a time share the disks and the processors of all nodes, and take far longer than one alone. When no
// group is in need any longer, that is over.
type pace time.Duration

// paceFactor is how many times the usual length an election may take.
const paceFactor = 2

// won records an election that was won. The pace adapts quickly to longer elections and slowly to shorter ones.
func (p *pace) won(d time.Duration) {
	by := pace(min(d, maxWait)) - *p
	if by > 0 {
		*p += by / 4
	} else {
		*p += by / 16
	}
}

// gaveUp records an election that was given up: it would have taken longer.
func (p *pace) gaveUp(up time.Duration) { p.won(2 * up) }
