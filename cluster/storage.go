package cluster

import (
	"fmt"

	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/id"
)

// openStorage opens the node's log, in which all queues are.
func (c *Cluster) openStorage() (err error) {
	c.storage, err = storage.Open(storage.Config{
		Dir: c.dir, LogDir: c.cfg.LogDir, Logger: c.log,
		TailBytes: c.cfg.TailBytes, LowBytes: c.cfg.DiskLow, FloorBytes: c.cfg.DiskFloor,
		Failed: c.logFailed, Lost: c.groupLost, Pressed: c.disks.LookSoon,
		Opening: func(done, total int) {
			c.starts(StartProgress{Phase: StartLog, Done: uint64(done), Total: uint64(total), Unit: unitSegments})
		},
	})
	return err
}

// logFailed ends all groups of this node: nobody knows what the disk has kept, and nothing more may be acknowledged.
// A restart reads what is there. The connections end first: so peers notice, and elect other leaders long before the
// node has ended.
func (c *Cluster) logFailed(err error) {
	if m := c.wired.Load(); m != nil {
		m.Cut()
	}
	c.log.Error("the node's log failed: its groups stop; look at the disk, then restart the node", "error", err)
	if c.cfg.Failed != nil {
		c.cfg.Failed(fmt.Errorf("%w: the node's log failed: %w", ErrDiskFailed, err))
	}
}

// groupLost stops the member of a group whose entries cannot be read. The log may find that before there
// is a host: its members are opened later, and those of lost groups are kept closed.
func (c *Cluster) groupLost(g id.GroupID, err error) {
	c.log.Error("a queue's entries on this node are damaged: its member stops; the other members go on", "queue", id.QueueUID(g).String(), "error", err)
	host := c.hosted.Load()
	if host == nil {
		return
	}
	if m := host.Member(id.QueueUID(g)); m != nil {
		m.Group().Fail(err)
	} else {
		host.WakeInBackground(id.QueueUID(g)) // one that hibernates: it finds the damage, and is rebuilt
	}
}
