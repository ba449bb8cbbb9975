package quota

import (
	"math"
	"slices"
)

// Share returns the part of a rate that a node gets that wants so much itself, while others want so much:
// units in a second, infinite for one that is held back. nodes is how many there are, with those that want nothing.
//
// Who wants less than an even part gets what it wants, and the others get even parts of the rest; what nobody
// wants is for all alike. So the parts that are used add up to the rate as soon as all know what all
// want. Nobody gets less than an even part of the whole, so that it can begin at once.
func Share(rate, own float64, others []float64, nodes int) float64 {
	nodes = max(nodes, 1+len(others))
	wants := append(slices.Clone(others), own)
	slices.Sort(wants)
	left, part := rate, 0.0
	for i, w := range wants {
		even := left / float64(len(wants)-i)
		given := min(w, even)
		left -= given
		if w == own {
			part = given
		}
	}
	return max(rate/float64(nodes), part+max(0, left)/float64(nodes))
}

// Meter measures what is taken, and whether somebody had to wait.
type Meter struct {
	units float64
	held  bool
	since float64 // seconds
	wants float64
}

// Add counts units.
func (m *Meter) Add(n float64) { m.units += n }

// Hold reports that somebody had to wait.
func (m *Meter) Hold() { m.held = true }

// Wants returns how much is wanted in a second at the time, in seconds since a fixed moment; infinite while
// somebody has to wait.
func (m *Meter) Wants(now float64) float64 {
	if m.held {
		return math.Inf(1)
	}
	return max(m.wants, m.running(now))
}

// Rate returns how much was taken in a second lately.
func (m *Meter) Rate(now float64) float64 {
	if m.wants > 0 {
		return m.wants
	}
	return m.running(now)
}

// running returns the rate of the period that is under way, in units per second. minMeasured keeps
// a burst in its first moments from counting as an enormous rate.
func (m *Meter) running(now float64) float64 {
	if d := now - m.since; d > 0 {
		return m.units / max(d, minMeasured)
	}
	return 0
}

// minMeasured, in seconds, keeps a first message from being taken for a stream of them.
const minMeasured = 0.1

// Next begins another time of measurement.
func (m *Meter) Next(now float64) {
	if d := now - m.since; d > 0 {
		m.wants = m.units / max(d, minMeasured)
	}
	m.units, m.held, m.since = 0, false, now
}
