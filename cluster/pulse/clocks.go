package pulse

import (
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Clock is this node's clock. Heartbeats send its readings to peers and receive theirs. Methods may
// be called concurrently and must not block.
type Clock interface {
	// Elapsed returns the monotonic time by which the round trips of heartbeats are measured. It is
	// above 0.
	Elapsed() time.Duration
	// Claim returns the readings of this node's clocks to send to a peer, and its measurement of
	// the peer's monotonic clock; nil: none.
	Claim(to id.NodeID) (clock.Claim, *clock.Measured)
	// Heard receives the readings of a peer's clocks, and the measurement of its monotonic clock by
	// this heartbeat; nil: none.
	Heard(from id.NodeID, c clock.Claim, m *clock.Measured)
	// Restarted reports that a peer's monotonic clock has restarted.
	Restarted(n id.NodeID)
}

// clocksTo is what a heartbeat to a node reports about this node's clocks; c may be nil.
func clocksTo(c Clock, n id.NodeID, came time.Duration) *nodev1.Clocks {
	if c == nil {
		return nil
	}
	says, knows := c.Claim(n)
	w := &nodev1.Clocks{
		Received: int64(came), Wall: int64(says.Wall), Cluster: int64(says.Cluster),
		Grade: nodev1.Clocks_Grade(says.Grade) + nodev1.Clocks_GRADE_UNSETTLED,
	}
	if knows != nil {
		ahead := int64(knows.Offset)
		w.Ahead, w.AheadError = &ahead, int64(knows.Error)
	}
	w.Elapsed = int64(c.Elapsed()) // last, for it is to be when the heartbeat leaves
	return w
}

// hearClocks processes what a heartbeat reports about a node's clocks. Of two nodes, the one that asks measures, and
// sends the result to the other one. If answers is set, the heartbeat is the answer in x; c may be nil.
func hearClocks(c Clock, n id.NodeID, asks bool, w *nodev1.Clocks, x clock.Exchange, answers bool) {
	if c == nil || w == nil {
		return
	}
	var m *clock.Measured
	switch {
	case answers && w.GetReceived() > 0:
		x.Received, x.Answered = time.Duration(w.GetReceived()), time.Duration(w.GetElapsed())
		if got, possible := x.Measure(); possible {
			m = &got
		}
	case !asks && w.Ahead != nil:
		m = &clock.Measured{Offset: -time.Duration(w.GetAhead()), Error: time.Duration(max(0, w.GetAheadError()))}
	}
	c.Heard(n, clock.Claim{
		Wall: time.Duration(w.GetWall()), Cluster: time.Duration(w.GetCluster()), Grade: gradeOf(w.GetGrade()),
	}, m)
}

// gradeOf counts grades that this build does not know as the lowest, so that nothing is built on them.
func gradeOf(g nodev1.Clocks_Grade) clock.Grade {
	switch g {
	case nodev1.Clocks_GRADE_PRESUMED:
		return clock.Presumed
	case nodev1.Clocks_GRADE_CONFIRMED:
		return clock.Confirmed
	case nodev1.Clocks_GRADE_UNSPECIFIED, nodev1.Clocks_GRADE_UNSETTLED:
	}
	return clock.Unsynchronized
}
