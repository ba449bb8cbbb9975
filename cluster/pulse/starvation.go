package pulse

import (
	"sync/atomic"
	"time"
)

const (
	// starvedOver is the time over which starvation is averaged.
	starvedOver = 4 * time.Second
	// starvedAtMost is how much of one delay counts. A process that lacks processors is late again and again; one
	// that was stopped once, however long, is not.
	starvedAtMost = 100 * time.Millisecond
	// mildStarvation is the share of the time, in thousandths, up to which nobody waits longer, and starvation the
	// share from which peers wait for mostLeniency.
	mildStarvation, starvation = 40, 120
	// mostLeniency is how many timeouts longer a silence may be at most.
	mostLeniency = 2
)

// starved is the share of the recent time for which this node lacked a processor, in
// thousandths. Where processors have far too much to do, nodes answer late, but they answer.
// To hold them for lost moves their leaders and repeats all that is on its way, which gives
// the processors more to do: a cluster that is busy would stay busy with itself. So nodes
// measure how late their own timers are, report that to their peers, and silence between two nodes is
// judged by the one that is worse off. A peer that is silent for another reason, however often,
// is found as fast as ever. It is for concurrent use; one goroutine measures.
type starved struct {
	share   atomic.Uint32
	average float64 // of the goroutine that measures
}

// ran records how late a timer ran, and how long the wait for it was, including the delay.
func (s *starved) ran(late, waited time.Duration) {
	if waited <= 0 {
		return
	}
	share := float64(min(max(late, 0), starvedAtMost)) / float64(waited)
	weight := min(1, float64(waited)/float64(starvedOver))
	s.average += weight * (min(share, 1) - s.average)
	s.share.Store(uint32(1000 * s.average))
}

// leniency is for how much longer than otherwise a peer may be silent where the share of
// the time without a processor is that, in thousandths.
func leniency(share uint32, pingTimeout time.Duration) time.Duration {
	over := min(max(share, mildStarvation), starvation) - mildStarvation
	return mostLeniency * pingTimeout * time.Duration(over) / (starvation - mildStarvation)
}
