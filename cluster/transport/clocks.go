package transport

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

// elapsed reads the clock for measuring, 0 if there is none.
func (p *pulse) elapsed() time.Duration {
	if c := p.m.config.Clock; c != nil {
		return c.Elapsed()
	}
	return 0
}

// clocks is what a heartbeat says of this node's clocks.
func (p *pulse) clocks(came time.Duration) *nodev1.Clocks {
	c := p.m.config.Clock
	if c == nil {
		return nil
	}
	says, knows := c.Claim(p.node)
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

// askedFor reports whether a heartbeat answers the newest ping, and when that was sent.
func (p *pulse) askedFor(b *nodev1.Ping) (asked time.Duration, answers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.asks && b.GetNumber() == p.number
}

// hearClocks takes what a heartbeat, which came at a time, says of the peer's clocks. The node
// that asks measures, and sends the result to the other one.
func (p *pulse) hearClocks(b *nodev1.Ping, asked, came time.Duration, answers bool) {
	c, w := p.m.config.Clock, b.GetClocks()
	if c == nil || w == nil {
		return
	}
	var m *clock.Measured
	switch {
	case answers && w.GetReceived() > 0:
		x := clock.Exchange{Asked: asked, Received: time.Duration(w.GetReceived()), Answered: time.Duration(w.GetElapsed()), Heard: came}
		if got, possible := x.Measure(); possible {
			m = &got
		}
	case !p.asks && w.Ahead != nil:
		m = &clock.Measured{Offset: -time.Duration(w.GetAhead()), Error: time.Duration(max(0, w.GetAheadError()))}
	}
	c.Heard(p.node, clock.Claim{
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
	return clock.Unsettled
}
