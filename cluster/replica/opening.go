package replica

import (
	"fmt"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

// open opens the member of a queue that the view has, unless it is open. It may be called
// from several goroutines.
func (h *Host) open(r *catalog.QueueRecord) error {
	uid := r.UID
	h.mu.Lock()
	h.unclaimed(uid)
	if h.closed || h.full || h.queues[uid] != nil || h.damaged[uid] != nil {
		h.mu.Unlock()
		return nil
	}
	claim := make(chan struct{})
	h.claims[uid] = claim
	h.mu.Unlock()
	defer h.release(uid, claim)
	// From here on, whoever removes the queue waits for the claim. If it was removed before, the
	// view no longer has it, or has it as another node's.
	v := h.cfg.Views.View()
	r, exists := v.QueueByUID(uid)
	if !exists || !r.Holds(h.cfg.Node) || h.past(r) {
		return nil
	}
	q, err := openMember(h, r, h.Current(v))
	if storage.Damaged(err) {
		h.keepClosed(r, err)
		return nil
	}
	if err != nil {
		h.cfg.Logger.Error("opening a queue's group", "queue", uid.String(), "error", err)
		return err
	}
	h.mu.Lock()
	if h.closed || h.full {
		h.mu.Unlock()
		return q.close()
	}
	slept := h.asleep[uid]
	if slept != nil {
		q.wakeful = slept.woken(h.cfg.HibernateAfter)
	}
	h.queues[uid] = q
	delete(h.joiners, uid)
	h.mu.Unlock()
	q.start()
	if slept != nil {
		// Whoever led it leads it again, so that leaders stay where they are put. All members know the same.
		h.cfg.Liveness.RequestElection(uid.Group(), slept.leader)
		h.mu.Lock()
		delete(h.asleep, uid)
		h.mu.Unlock()
	}
	return nil
}

// release ends a claim.
func (h *Host) release(uid id.QueueUID, claim chan struct{}) {
	h.mu.Lock()
	delete(h.claims, uid)
	h.mu.Unlock()
	close(claim)
}

// unclaimed waits until nobody opens the queue. The caller holds mu.
func (h *Host) unclaimed(uid id.QueueUID) {
	for h.claims[uid] != nil {
		claim := h.claims[uid]
		h.mu.Unlock()
		<-claim
		h.mu.Lock()
	}
}

// Wake makes a member that is not open be opened before others, because a client or another node waits for it. It
// does not block. It returns false if this node has no member to open.
func (h *Host) Wake(uid id.QueueUID) bool { return h.wake(uid, true) }

// WakeInBackground is Wake where nobody waits, or whoever waits can: those for which Wake was called go first.
func (h *Host) WakeInBackground(uid id.QueueUID) bool { return h.wake(uid, false) }

// wake is Wake, or WakeInBackground if nobody waits.
func (h *Host) wake(uid id.QueueUID, waits bool) bool {
	v := h.cfg.Views.View()
	r, exists := v.QueueByUID(uid)
	// A member that joins is opened by the reconcile loop, which keeps the right order.
	if !exists || !r.Holds(h.cfg.Node) || h.past(r) || Joins(r, h.cfg.Node) != nil || !h.Current(v) && !h.cfg.Storage.Has(uid.Group()) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.full || h.damaged[uid] != nil {
		return false
	}
	if h.queues[uid] != nil {
		return true
	}
	h.demand.add(uid, waits)
	if h.wakers < maxOpening {
		h.wakers++
		h.opening.Go(h.serveDemand)
	}
	return true
}

// serveDemand opens the members that are in demand, until none is.
func (h *Host) serveDemand() {
	for {
		h.mu.Lock()
		uid, some := h.demand.next()
		if !some || h.closed {
			h.wakers--
			h.mu.Unlock()
			return
		}
		h.young[uid] = struct{}{} // before open looks at the view
		h.mu.Unlock()
		if r, exists := h.cfg.Views.View().QueueByUID(uid); exists {
			if h.open(r) != nil {
				h.WakeReconcile() // which tries again
			}
		}
	}
}

// Absent implements a callback of transport.Config: a Raft call has come for a group that is not
// open here. It returns true if the call should wait, because the group will be opened now, or when
// the view has its queue.
func (h *Host) Absent(g id.GroupID) bool {
	uid := id.QueueUID(g)
	if uid < id.FirstQueueUID {
		return false
	}
	// UIDs rise, so a larger one may belong to a queue that this node does not know yet.
	return uid >= h.cfg.Views.View().NextQueueUID() || h.Wake(uid)
}

// NotHosted returns the error for a request about a queue of which this node has no open member.
func (h *Host) NotHosted(q id.QueueUID) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if j := h.joiners[q]; j != nil && j.waits != nil {
		return fmt.Errorf("%w: node %q has no member of queue %s yet: it joins, and no leader has said how far the queue is: %w",
			traffic.ErrNoSuchQueue, h.cfg.Node, q, j.waits)
	}
	return fmt.Errorf("%w: node %q has no member of queue %s", traffic.ErrNoSuchQueue, h.cfg.Node, q)
}
