package cluster

import (
	"time"

	"github.com/quorate/quorate/internal/phase"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/raftfsm"
)

// markEvery is the interval between marks while the logs grow: a loss of records written after the last mark is not
// noticed.
const markEvery = time.Second

// keepMark writes marks while the logs grow.
func (c *Cluster) keepMark() {
	logged := false
	for {
		if wait.For(c.ctx, phase.Wait(time.Now(), markEvery)) != nil {
			return
		}
		if err := c.writeMark(); err != nil && !logged {
			c.log.Warn("cannot note how far the logs go: a start would not notice that their ends are lost", "error", err)
			logged = true
		}
	}
}

// writeMark writes a mark if the logs have grown since the last one.
func (c *Cluster) writeMark() error {
	m := c.dir.Mark()
	m.Log = c.storage.Mark()
	if g := c.catalog; g != nil {
		s := g.Raft().Stats()
		m.Catalog = raftfsm.Extent{Term: s.Term, Last: s.CommitIndex}
		if at, err := g.Raft().Configuration(); err == nil && len(at.Voters) > 0 {
			m.Voters = uint64(len(at.Voters))
		}
	}
	if c.storage.Failed() != nil {
		return nil //nolint:nilerr // a log that has failed has reported so
	}
	return c.dir.SetMark(m)
}
