package clock

import (
	"slices"
	"time"
)

const (
	// freshFor is for how long a node's report about its clocks is believed.
	freshFor = 5 * time.Second
	// driftShare is the share of its age by which a measurement may be off: two monotonic
	// clocks may drift apart by that much.
	driftShare = 50
	// keepSamples bounds the measurements of one peer.
	keepSamples = 8
	// errorShare is the share of the limit by which a measurement may be off to count.
	errorShare = 4
)

// Exchange is a question to a peer and its answer: when they were sent and received, by the
// monotonic clocks of who did it.
type Exchange struct {
	Asked, Received, Answered, Heard time.Duration
}

// Measured is by how much a peer's monotonic clock is ahead of this node's, and the possible error of that.
type Measured struct {
	Offset, Error time.Duration
}

// Measure returns what an exchange shows; false: it is impossible, as if a clock was stopped.
func (x Exchange) Measure() (Measured, bool) {
	away, there := x.Heard-x.Asked, x.Answered-x.Received
	if away < 0 || there < 0 || there > away {
		return Measured{}, false
	}
	return Measured{Offset: ((x.Received - x.Asked) + (x.Answered - x.Heard)) / 2, Error: (away - there) / 2}, true
}

// Claim is what a node reports about its clocks, as offsets to its monotonic clock.
type Claim struct {
	Wall    time.Duration // its wall clock
	Cluster time.Duration // its clock of the cluster
	Grade   Grade
}

// peer is what is known of another node's clocks.
type peer struct {
	samples []sample // the newest last
	claim   Claim
	heard   time.Duration // when the claim came
}

// sample is a measurement and when it was made, by the monotonic clock here.
type sample struct {
	Measured
	at time.Duration
}

// off is the possible error of a measurement by now.
func (s *sample) off(now time.Duration) time.Duration { return s.Error + (now-s.at)/driftShare }

// measured adds a measurement. Those before that cannot be true if it is are of before one of
// the two machines was paused, or slept.
func (p *peer) measured(now time.Duration, m Measured) {
	p.samples = slices.DeleteFunc(p.samples, func(s sample) bool {
		return (s.Offset - m.Offset).Abs() > s.off(now)+m.Error
	})
	if len(p.samples) == keepSamples {
		p.samples = append(p.samples[:0], p.samples[1:]...)
	}
	p.samples = append(p.samples, sample{m, now})
}

// best returns the most accurate measurement now; false: none is more accurate than the limit.
func (p *peer) best(now, limit time.Duration) (Measured, bool) {
	var best *sample
	for i := range p.samples {
		if s := &p.samples[i]; best == nil || s.off(now) <= best.off(now) {
			best = s
		}
	}
	if best == nil || now-p.heard > freshFor || best.off(now) > limit/errorShare {
		return Measured{}, false
	}
	return Measured{best.Offset, best.off(now)}, true
}
