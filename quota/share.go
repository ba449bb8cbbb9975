package quota

import (
	"math"
	"slices"
)

// Share returns a node's share of a rate. own is the node's demand and others are the demands of
// other nodes, in units per second; the demand of a node whose publishers wait is infinite. nodes
// is the number of nodes, including those without demand.
//
// A node whose demand is below an even share gets its demand, and the other nodes share the rest
// evenly. What no node demands is divided evenly among all. So the shares in use add up to the rate
// once all nodes know all demands. No node gets less than an even share of the whole, so that it
// can start at once.
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

// Meter measures the units taken, and whether a publisher had to wait.
type Meter struct {
	units float64
	held  bool
	since float64 // seconds
	wants float64
}

// Add counts units.
func (m *Meter) Add(n float64) { m.units += n }

// Hold records that a publisher had to wait.
func (m *Meter) Hold() { m.held = true }

// Wants returns the demand in units per second; infinite while a publisher has to wait. now is in
// seconds since a fixed moment.
func (m *Meter) Wants(now float64) float64 {
	if m.held {
		return math.Inf(1)
	}
	return max(m.wants, m.running(now))
}

// Rate returns the units taken per second in the last period.
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

// minMeasured, in seconds, keeps a first message from counting as a stream of messages.
const minMeasured = 0.1

// Next begins another period.
func (m *Meter) Next(now float64) {
	if d := now - m.since; d > 0 {
		m.wants = m.units / max(d, minMeasured)
	}
	m.units, m.held, m.since = 0, false, now
}
