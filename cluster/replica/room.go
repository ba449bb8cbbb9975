package replica

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

// handOverTimeout bounds the last round of handing leaders over before members stop.
const handOverTimeout = 2 * time.Second

// heedDisk stops all members of queues of this node while its disk is full: a write that
// finds no room would end the log. Their files stay, and when there is room they are
// opened again. The reconcile loop calls it.
func (h *Host) heedDisk(v *catalog.View) error {
	full := h.cfg.Disks.Full()
	h.mu.Lock()
	was := h.full
	h.mu.Unlock()
	if full == was {
		return nil
	}
	if full {
		ctx, cancel := context.WithTimeout(h.cfg.Life, handOverTimeout)
		defer cancel()
		h.above.HandOver(ctx)
	}
	h.mu.Lock()
	h.full = full
	if !full {
		h.mu.Unlock()
		for r := range v.Queues() {
			if r.Holds(h.cfg.Node) {
				h.todo[r.UID] = struct{}{}
			}
		}
		return nil
	}
	all := make([]*Member, 0, len(h.queues))
	for uid, q := range h.queues {
		if err := q.group.Failed(); err != nil && storage.Damaged(err) {
			h.damaged[uid] = err
			wait.Wake(h.mends)
		}
		all = append(all, q)
	}
	clear(h.queues)
	h.mu.Unlock()
	err := each.Of(all, maxOpening, (*Member).close)
	h.cfg.Logger.Error("members of queues are stopped until the disk has room", "members", len(all))
	h.cfg.Disks.LookSoon()
	return err
}

// NotOpen returns how many members are not open that could be.
func (h *Host) NotOpen() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return max(0, h.wanted-len(h.queues)-len(h.damaged)-len(h.asleep))
}

// Relieve lets members give back what they do not need of the log, while the disk is low and
// until ctx ends.
func (h *Host) Relieve(ctx context.Context) error {
	return each.Of(h.Members(), maxOpening, func(q *Member) error {
		if !h.cfg.Disks.Low() || ctx.Err() != nil {
			return nil //nolint:nilerr // it is over
		}
		return q.group.Relieve()
	})
}

// HangsChanged notifies the members that a write to the disk has begun to hang, or has come back.
func (h *Host) HangsChanged() {
	for _, q := range h.Members() {
		q.group.HangsChanged()
	}
}
