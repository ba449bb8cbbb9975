package replica

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

// handOverTimeout limits the last transfer of leadership before members stop.
const handOverTimeout = 2 * time.Second

// heedDisk stops all members of queues on this node while its disk is full, because a write without
// room would end the log. Their files stay; when there is room again, the members are opened again.
// The reconcile loop calls it.
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
			if !r.Holds(h.cfg.Node) {
				continue
			}
			if h.todo[r.UID] = struct{}{}; asks(r) && h.sleeper(r.UID) != nil {
				h.WakeInBackground(r.UID) // it could not be opened when it was asked
			}
		}
		h.reconfigure(v)
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

// NotOpen returns how many members should be open but are not.
func (h *Host) NotOpen() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return max(0, h.wanted-len(h.queues)-len(h.damaged)-len(h.asleep))
}

// Relieve makes members free what they do not need of the log, as long as the disk is low and ctx
// lasts.
func (h *Host) Relieve(ctx context.Context) error {
	return each.Of(h.Members(), maxOpening, func(q *Member) error {
		if !h.cfg.Disks.Low() || ctx.Err() != nil {
			return nil //nolint:nilerr // it is over
		}
		return q.group.Relieve()
	})
}

// HangsChanged notifies the members that writes to the disk have begun to hang, or no longer hang.
func (h *Host) HangsChanged() {
	for _, q := range h.Members() {
		q.group.HangsChanged()
	}
}
