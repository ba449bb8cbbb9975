// Package clock computes what time it is in a cluster whose nodes' wall clocks may be
// wrong, and what time it is in a queue that is led now by one node, now by another.
//
// A node's clock of the cluster runs on its monotonic clock. The wall clocks of all nodes in reach decide its
// reading: the time is what a majority of them agrees on within half the skew limit, and a node whose own wall clock
// is set, or drifts, follows the others (Steering). Within a leadership a queue's time continues from the latest
// stamp in its log, never back and never at less than nearly full speed (Queue).
//
// The package reads no clock. Times are durations since the Unix epoch.
package clock

import "time"

// DefaultLimit is the skew limit: it bounds by how much anything expires early or stands still. Wall clocks that
// differ by up to half of it count as agreeing.
const DefaultLimit = 500 * time.Millisecond

// Bounds of the skew limit.
const (
	MinLimit = 50 * time.Millisecond
	MaxLimit = 10 * time.Second
)

// How a clock is brought to where it should be. Below the limit that takes a twentieth of
// the time that passes at most, and a second at least.
const (
	slewShare = 20
	slewLeast = time.Second
	// farShare is the share of the time that passes by which a clock further away is
	// brought nearer: a TTL of a minute and a half is off by less than the limit meanwhile.
	farShare = 200
)

// Reading is what a machine's two clocks show at one moment.
type Reading struct {
	Elapsed time.Duration // of the monotonic clock, since some moment of this process
	Wall    time.Duration // of the wall clock, since the Unix epoch
}

// Grade is how reliable a node's clock of the cluster is.
type Grade uint8

// The grades.
const (
	// Unsynchronized: the node has just started and knows its own wall clock only.
	Unsynchronized Grade = iota
	// Presumed: nobody who knows was in reach for a while; the lowest wall clock counts.
	Presumed
	// Confirmed: by a majority of the nodes' wall clocks, or by a node that had it so.
	Confirmed
)

// String returns the grade's name.
func (g Grade) String() string {
	return [...]string{"unsettled", "presumed", "confirmed"}[min(g, Confirmed)]
}

// Line is a clock of the cluster until it is steered again: an offset to the node's
// monotonic clock, and how it changes.
type Line struct {
	Grade  Grade
	at     time.Duration // of the monotonic clock
	offset time.Duration // at that moment
	slew   time.Duration // what is added to it
	over   time.Duration // in the course of so long
}

// Offset returns the time of the cluster less that of the monotonic clock.
func (l *Line) Offset(elapsed time.Duration) time.Duration {
	passed := elapsed - l.at
	switch {
	case l.slew == 0 || passed <= 0:
		return l.offset
	case passed >= l.over:
		return l.offset + l.slew
	default:
		return l.offset + time.Duration(float64(l.slew)*(float64(passed)/float64(l.over)))
	}
}

// Moment returns the time of the cluster.
func (l *Line) Moment(elapsed time.Duration) Moment {
	return Moment{Elapsed: elapsed, Time: elapsed + l.Offset(elapsed), Reliable: l.Grade != Unsynchronized}
}

// Moment is what a node's clocks show a leader.
type Moment struct {
	Elapsed  time.Duration // of the monotonic clock
	Time     time.Duration // of the cluster, since the Unix epoch
	Reliable bool          // the time can be relied on
}
