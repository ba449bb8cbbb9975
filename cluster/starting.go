package cluster

import "time"

// startTick is the time between two lines in the log about a start.
const startTick = time.Second

// starts records the progress of the start in the phases before groups are opened.
func (c *Cluster) starts(p StartProgress) {
	c.starting.Store(&p)
	if c.cfg.Starting != nil {
		c.cfg.Starting(p)
	}
}

// StartProgress returns the progress of this node's start. While leaders are being elected, it checks every group.
func (c *Cluster) StartProgress() StartProgress {
	p := *c.starting.Load()
	if p.Phase != StartCatalog || c.catalog.Ready() != nil {
		return p
	}
	p = startOf(c.host.Progress(c.catalog.Registered()))
	if p.Phase == StartDone {
		c.starting.Store(&p)
	}
	return p
}

// reportStart logs the progress of the start, at most once a second, until it is done or the node stops.
func (c *Cluster) reportStart() {
	tick := time.NewTicker(startTick)
	defer tick.Stop()
	began, last := time.Now(), StartProgress{}
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		// Before boot has returned, only what is stored may be looked at.
		p := *c.starting.Load()
		if c.booted.Load() {
			p = c.StartProgress()
		}
		if p.Phase == StartDone {
			c.log.Info("node has started", "groups", p.Total, "took", time.Since(began).Round(time.Millisecond))
			return
		}
		if p != last {
			c.log.Info("node is starting", "phase", string(p.Phase), "done", p.Done, "total", p.Total, "unit", p.Unit)
			last = p
		}
	}
}
