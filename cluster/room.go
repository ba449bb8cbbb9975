package cluster

import "time"

// diskGroups are the groups of this node, which are notified of trouble with its disk.
type diskGroups struct{ c *Cluster }

// WriteAge implements disk.Groups: the catalog has a log of its own.
func (g diskGroups) WriteAge() time.Duration { return g.c.catalog.Raft().WriteAge() }

// Stopped implements disk.Groups.
func (g diskGroups) Stopped() int { return g.c.host.NotOpen() }

// FloorPassed implements disk.Groups.
func (g diskGroups) FloorPassed() { g.c.host.WakeReconcile() }

// HangsChanged implements disk.Groups.
func (g diskGroups) HangsChanged(hangs bool) {
	g.c.catalog.Raft().HangsChanged()
	g.c.host.HangsChanged()
	if hangs {
		g.c.gateway.HostHangs()
	}
}
