package liveness

import "time"

// pace is how long elections take on this node at present, so that a candidate whose votes
// wait for slow disks is not taken for one that is stuck: ending its election writes more,
// and has others stand before it could win. Elections in numbers share the disks and the
// processors of all nodes, and take far longer than one alone; when no group is in need any
// more, that is over.
type pace time.Duration

// paceFactor is how many times the usual length an election may take.
const paceFactor = 2

// won notes an election that was won. The pace follows longer ones soon and
// shorter ones slowly.
func (p *pace) won(d time.Duration) {
	by := pace(min(d, maxWait)) - *p
	if by > 0 {
		*p += by / 4
	} else {
		*p += by / 16
	}
}

// gaveUp notes an election that was given up: what it would have taken is longer.
func (p *pace) gaveUp(up time.Duration) { p.won(2 * up) }
