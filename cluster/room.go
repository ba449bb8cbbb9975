package cluster

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/internal/wait"
)

// handOverTimeout bounds the last round of handing leaders over before members stop.
const handOverTimeout = 2 * time.Second

// heedDisk stops all members of queues of this node while its disk is full: a write that
// finds no room would end the log. Their files stay, and when there is room they are
// opened again. The reconcile loop calls it.
func (h *host) heedDisk(v *catalog.View) error {
	full := h.c.disks.Full()
	h.mu.Lock()
	was := h.full
	h.mu.Unlock()
	if full == was {
		return nil
	}
	if full {
		ctx, cancel := context.WithTimeout(h.c.ctx, handOverTimeout)
		defer cancel()
		h.c.unloader.HandOver(ctx)
	}
	h.mu.Lock()
	h.full = full
	if !full {
		h.mu.Unlock()
		for r := range v.Queues() {
			if r.Holds(h.c.cfg.Node) {
				h.todo[r.UID] = struct{}{}
			}
		}
		return nil
	}
	all := make([]*hosted, 0, len(h.queues))
	for uid, q := range h.queues {
		if err := q.group.Failed(); err != nil && storage.Damaged(err) {
			h.damaged[uid] = err
			wait.Wake(h.mends)
		}
		all = append(all, q)
	}
	clear(h.queues)
	h.mu.Unlock()
	err := eachOf(all, (*hosted).close)
	h.c.log.Error("members of queues are stopped until the disk has room", "members", len(all))
	h.c.disks.LookSoon()
	return err
}

// notOpen returns how many members are not open that could be.
func (h *host) notOpen() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return max(0, h.wanted-len(h.queues)-len(h.damaged)-len(h.asleep))
}

// diskGroups are the groups of this node, to which its disk's trouble is told.
type diskGroups struct{ c *Cluster }

// WriteAge is of disk.Groups: the catalog has a log of its own.
func (g diskGroups) WriteAge() time.Duration { return g.c.catalog.Raft().WriteAge() }

// Stopped is of disk.Groups.
func (g diskGroups) Stopped() int { return g.c.host.notOpen() }

// FloorPassed is of disk.Groups.
func (g diskGroups) FloorPassed() { g.c.host.wakeReconcile() }

// HangsChanged is of disk.Groups.
func (g diskGroups) HangsChanged(hangs bool) {
	g.c.catalog.Raft().HangsChanged()
	for _, q := range g.c.host.all() {
		q.group.HangsChanged()
	}
	if hangs {
		g.c.gateway.HostHangs()
	}
}
