package replica

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// A member whose stored data is damaged or lost may have voted, or acknowledged entries, and no longer know it. It is
// kept closed: it does not vote and does not serve until Host.remove has wiped it and it joins its group again as a
// new member. The same holds for a member whose machine has found a broken invariant.

// keepClosed records a member that could not be opened because of damage.
func (h *Host) keepClosed(r *catalog.QueueRecord, err error) {
	h.cfg.Logger.Error("a queue's member has lost what it had stored: it is kept closed and does not vote until it is rebuilt from its peers",
		"queue", r.Name, "vhost", r.VHost, "uid", r.UID.String(), "error", err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.damaged[r.UID] = err
	delete(h.asleep, r.UID) // what was kept about it no longer stands for a member
	wait.Wake(h.mends)
}

// keptClosed reports whether this node's member of a queue could not be opened because of damage.
func (h *Host) keptClosed(uid id.QueueUID) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.damaged[uid] != nil
}

// Losses returns the queues whose member on this node has lost what it had stored, and the error.
// Such a member was kept closed, or has stopped when it found the damage.
func (h *Host) Losses() map[id.QueueUID]error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	lost := maps.Clone(h.damaged)
	for uid, q := range h.queues {
		if err := q.group.Failed(); err != nil && storage.Damaged(err) {
			lost[uid] = err
		}
	}
	return lost
}

// LostMembers returns the queues of Losses, ascending. Each stays there until Host.remove has wiped
// it. That must not happen before the catalog has removed the member: otherwise an empty member
// would be opened in its place, and vote. LostMembers may be called concurrently.
func (h *Host) LostMembers() []id.QueueUID { return slices.Sorted(maps.Keys(h.Losses())) }
