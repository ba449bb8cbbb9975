package cluster

import (
	"time"

	"github.com/quorate/quorate/cluster/nodeclock"
)

// Now returns the time of the cluster, which all nodes agree on within Config.ClockSkew,
// whatever their wall clocks show.
func (c *Cluster) Now() time.Time { return time.Unix(0, int64(c.clock.Moment().Time)) }

// nodeCount returns how many the cluster has: as many as the catalog knows, or as keep it, which
// is known before it is read, or as are to found it.
func (c *Cluster) nodeCount() int {
	known := c.View().NodeCount()
	if voters, err := c.catalog.Raft().Members(); err == nil && len(voters) > 0 {
		return max(len(voters), known)
	}
	return max(known, c.cfg.Expect)
}

// ClockFigures are those of this node's clock of the cluster.
type ClockFigures struct {
	nodeclock.Figures
	// QueueAhead is the time of the queue that is furthest from the time of the cluster, of
	// those that this node leads, less that time.
	QueueAhead time.Duration
}

// ClockFigures returns the figures of the moment.
func (c *Cluster) ClockFigures() ClockFigures {
	return ClockFigures{Figures: c.clock.Figures(), QueueAhead: c.host.Ahead()}
}
