package transport

import "time"

const (
	// latenessOver is the time over which lateness is averaged.
	latenessOver = 4 * time.Second
	// latenessFactor is how many times the usual lateness a beat may take longer than one
	// that comes in time.
	latenessFactor = 3
	// mostLeniency is how many PingTimeouts that may be at most.
	mostLeniency = 2
)

// lateness is for how long a peer is silent at present, on average, before it is heard after
// all. Where processors have far too much to do, nodes answer late, but they answer. To
// hold them for lost moves their leaders and repeats all that is on its way, which gives
// the processors more to do: a cluster that is busy would stay busy with itself. So the
// usual silence is taken off. A peer whose beats come in time is judged as if there was none.
type lateness time.Duration

// ended takes note of a silence that has ended, by a beat that came so long after the one
// before.
func (l *lateness) ended(silence, gap time.Duration) {
	late := max(0, silence-lateAfter)
	share := min(1, float64(gap)/float64(latenessOver))
	*l += lateness(share * float64(late-time.Duration(*l)))
}

// leniency is for how much longer than otherwise the peer may be silent.
func (l lateness) leniency(pingTimeout time.Duration) time.Duration {
	return min(latenessFactor*time.Duration(l), mostLeniency*pingTimeout)
}
