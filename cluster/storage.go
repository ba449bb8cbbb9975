package cluster

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// openShared opens the node's log, in which all queues are.
func (c *Cluster) openShared() error {
	path := c.dir.Log()
	if err := c.dir.MakeLog(); err != nil {
		return err
	}
	dir, err := c.cfg.LogDir(path)
	if err != nil {
		return fmt.Errorf("cluster: opening the log's directory: %w", err)
	}
	c.shared, err = wal.Open(dir, wal.Config{
		Logger: c.log, OnFailure: c.logFailed, OnLost: c.groupLost,
		Mark:      c.dir.Mark().Log,
		TailBytes: c.cfg.TailBytes, LowBytes: c.cfg.DiskLow, FloorBytes: c.cfg.DiskFloor, OnPressure: func(wal.Pressure) { c.disks.lookSoon() },
		OnOpen: func(done, total int) {
			c.starts(StartProgress{Phase: StartLog, Done: uint64(done), Total: uint64(total), Unit: unitSegments})
		},
	})
	if err != nil {
		return fmt.Errorf("cluster: opening the log in %q: %w", path, err)
	}
	return nil
}

// logFailed ends all groups of this node: nobody knows what the disk has kept, and
// nothing may be acknowledged any more. A restart reads what is there. The links go first:
// by that peers know, and have other leaders long before the node has ended.
func (c *Cluster) logFailed(err error) {
	if m := c.wired.Load(); m != nil {
		m.Cut()
	}
	c.log.Error("the node's log failed: its groups stop; look at the disk, then restart the node", "error", err)
	if c.cfg.Failed != nil {
		c.cfg.Failed(fmt.Errorf("%w: the node's log failed: %w", ErrDiskFailed, err))
	}
}

// groupLost stops the member of a group whose entries cannot be read.
func (c *Cluster) groupLost(g id.GroupID, err error) {
	c.log.Error("a queue's entries on this node are damaged: its member stops; the other members go on", "queue", id.QueueUID(g).String(), "error", err)
	if m := c.host.queue(id.QueueUID(g)); m != nil {
		m.group.Fail(err)
	}
}

// openStorage opens a queue's part of the node's log.
func (h *host) openStorage(q id.QueueUID, dir string) (raftfsm.Storage, error) {
	known := h.c.shared.Has(q.Group())
	if err := h.c.shared.LostGroup(q.Group()); err != nil {
		return nil, fmt.Errorf("its entries in the node's log are damaged: %w", err)
	}
	if !known && datadir.HasSnapshot(dir) {
		return nil, fmt.Errorf("%w: it has a snapshot, but nothing in the log %s: segments are gone: %s",
			wal.ErrLost, h.c.dir.Log(), remedyRebuild)
	}
	if gap := h.c.shared.Gap(); !known && gap != nil {
		return nil, fmt.Errorf("it has nothing in the node's log, and what it had may have been in what is damaged: %w", gap)
	}
	return h.c.shared.Group(q.Group())
}

// endGap says which members have lost all that they had, if records were lost of which the
// log cannot tell whose they were: those that this node has, as the catalog says, and of
// which nothing is stored.
func (h *host) endGap(v *catalog.View) error {
	if h.c.shared.Gap() == nil || !h.current(v) {
		return nil
	}
	var lost []id.GroupID
	for r := range v.Queues() {
		if slices.Contains(r.Members, h.c.cfg.Node) && !h.c.stored(r.UID) {
			lost = append(lost, r.UID.Group())
		}
	}
	if err := h.c.shared.EndGap(lost); err != nil {
		return fmt.Errorf("cluster: members that are lost with damaged records: %w", err)
	}
	return nil
}

// stored tells whether this node has something of a queue on disk.
func (c *Cluster) stored(q id.QueueUID) bool {
	return c.shared.Has(q.Group()) || c.dir.HasQueue(q)
}

// storedQueues returns the queues of which this node has something on disk.
func (c *Cluster) storedQueues() ([]id.QueueUID, error) {
	uids, err := c.dir.Queues()
	if err != nil {
		return nil, err
	}
	for _, g := range c.shared.Groups() {
		uids = append(uids, id.QueueUID(g))
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// dropStorage deletes what a queue's group has in the log.
func (h *host) dropStorage(q id.QueueUID) error {
	if err := h.c.shared.Delete(q.Group()); err != nil && !errors.Is(err, wal.ErrClosed) {
		return fmt.Errorf("cluster: deleting the log of queue %s: %w", q, err)
	}
	return nil
}
