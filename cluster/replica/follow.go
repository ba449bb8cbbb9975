package replica

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/quorumq"
)

// WakeReconcile makes the reconcile loop run again although the view has not changed.
func (h *Host) WakeReconcile() {
	wait.Wake(h.woken)
}

// reconcile follows the view until stop is closed: it opens groups of which this node is a member,
// and closes those of which it no longer is.
func (h *Host) reconcile(stop <-chan struct{}) {
	retry := time.NewTimer(reconcileRetry)
	defer retry.Stop()
	for {
		changed := h.cfg.Views.Next()
		failed := h.follow(h.cfg.Views.View())
		again := retry.C
		if retry.Reset(reconcileRetry); failed == nil {
			again = nil
		}
		select {
		case <-changed:
		case <-h.woken:
		case <-again:
		case <-stop:
			return
		}
	}
}

// reconcileRetry is the wait before the loop tries again to open or delete what it could not.
const reconcileRetry = time.Second

// follow processes what has changed since the view that it followed last. So a change costs the
// same however many queues there are.
func (h *Host) follow(v *catalog.View) error {
	if h.seen.NodeSet() != v.NodeSet() {
		h.cfg.Transport.Recheck()
		h.checkNodes()
	}
	h.hear(v)
	h.compare(v)
	if err := h.endGap(v); err != nil {
		return err
	}
	gone := each.Of(keys(h.toDrop), maxOpening, h.remove)
	if gone == nil {
		clear(h.toDrop)
	}
	failures := errors.Join(gone, h.heedDisk(v), h.attend(v), h.sweep(v))
	h.mu.Lock()
	h.failures, h.followed = failures, v.Index()
	h.mu.Unlock()
	return failures
}

// compare finds the queues that need attention.
func (h *Host) compare(v *catalog.View) {
	self, wanted, change := h.cfg.Node, 0, false
	for was, is := range v.ChangedQueues(h.seen) {
		if was != nil && was.Holds(self) {
			wanted--
		}
		if is == nil {
			if h.cfg.Policies.DrainsBeforeDelete(h.seen, was) {
				h.above.Gateway.QueueDrainDeletes(was.UID) // it may have begun and ended since the last view
			}
			h.above.Gateway.QueueGone(was.UID)
			h.toDrop[was.UID] = struct{}{}
			delete(h.todo, was.UID)
			h.noteChanging(was.UID, false)
			continue
		}
		if is.Holds(self) {
			wanted++
		}
		if is.DrainDeleting > 0 && (was == nil || was.DrainDeleting == 0) {
			h.above.Gateway.QueueDrainDeletes(is.UID)
		}
		h.todo[is.UID] = struct{}{}
		change = is.Change != nil || change
		h.noteChanging(is.UID, is.Change != nil)
		if q := h.Member(is.UID); q != nil {
			q.box.Post(q.heedRecord)
		} else if a := h.sleeper(is.UID); a != nil && was == nil && !asks(is) {
			h.remember(is.UID, a) // recorded before the start
		} else if a != nil {
			h.WakeInBackground(is.UID)
		}
	}
	h.dropUnseen(v)
	h.above.Gateway.Followed(v)
	if configurationChanged(h.seen, v) {
		h.reconfigure(v)
	}
	h.seen = v
	h.mu.Lock()
	h.wanted += wanted
	h.mu.Unlock()
	if change {
		wait.Wake(h.changes)
	}
}

// dropUnseen drops members that were opened on demand for queues that were created and deleted between
// two views that were followed: no comparison shows those. A queue that v has is compared from now on.
func (h *Host) dropUnseen(v *catalog.View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid := range h.young {
		if uid >= v.NextQueueUID() {
			continue // v is from before its creation
		}
		if _, exists := v.QueueByUID(uid); !exists {
			h.toDrop[uid] = struct{}{}
		}
		delete(h.young, uid)
	}
}

// asks reports whether a record asks something of its queue for which the members must be open.
func asks(r *catalog.QueueRecord) bool { return r.Change != nil || r.DrainDeleting > 0 }

// settingsDiffer reports whether a hibernating queue should have other settings than it has. Newer
// rules are no reason to wake it; it gets them when it is next led.
func (h *Host) settingsDiffer(v *catalog.View, r *catalog.QueueRecord, has quorumq.Config) bool {
	want := h.queueConfig(v, r)
	want.Rules = has.Rules
	return want != has
}

// configurationChanged reports whether the settings in force may have changed for queues whose
// records have not: because a vhost, a policy or the finalised version has changed.
func configurationChanged(old, now *catalog.View) bool {
	if old.Version() != now.Version() {
		return true
	}
	for vhost := range now.VHosts() {
		if was, _ := old.VHost(vhost.Name); was != vhost || old.PolicySet(vhost.Name) != now.PolicySet(vhost.Name) {
			return true
		}
	}
	return false
}

// reconfigure makes every queue that this node leads compare its configuration. It wakes
// hibernating queues that it answers for if theirs has changed.
func (h *Host) reconfigure(v *catalog.View) {
	for _, q := range h.Members() {
		if q.led.Load() != nil {
			q.box.Post(q.configure)
		}
	}
	for uid, a := range h.answersFor(v, h.connected(v)) {
		r, exists := v.QueueByUID(uid)
		if o := a.figures(); exists && o != nil && h.settingsDiffer(v, r, o.Config) {
			h.WakeInBackground(uid)
		}
	}
}

// noteChanging records whether a change of the queue's members is open in the catalog.
func (h *Host) noteChanging(uid id.QueueUID, changes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if changes {
		h.changing[uid] = struct{}{}
	} else {
		delete(h.changing, uid)
	}
}

// Changing returns the open members of queues whose members are being changed.
func (h *Host) Changing() []*Member {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var qs []*Member
	for uid := range h.changing {
		if q := h.queues[uid]; q != nil {
			qs = append(qs, q)
		}
	}
	return qs
}

func keys(m map[id.QueueUID]struct{}) []id.QueueUID { return slices.Sorted(maps.Keys(m)) }

// attend does what is due for the queues that need attention. What fails is tried again.
func (h *Host) attend(v *catalog.View) error {
	current := h.Current(v)
	var due []*catalog.QueueRecord
	var drop []id.QueueUID
	for _, uid := range keys(h.todo) {
		r, exists := v.QueueByUID(uid)
		d := dutyNone
		if exists {
			d = h.due(r, current)
		}
		if d == dutyDrop || d == dutyRenew {
			drop = append(drop, uid)
		}
		if d == dutyOpen || d == dutyRenew {
			due = append(due, r)
		}
		if d == dutyNone && current {
			delete(h.todo, uid)
		}
	}
	if err := each.Of(drop, maxOpening, h.drop); err != nil {
		return err // else one could be opened over files that must be deleted
	}
	// Joining members ask for their groups' bases when nothing of an earlier membership is left.
	return each.Of(slices.DeleteFunc(due, func(r *catalog.QueueRecord) bool { return !h.begins(r) }), maxOpening, h.open)
}

// hear processes what the view says about nodes.
func (h *Host) hear(v *catalog.View) {
	news := false
	for n := range v.Nodes() {
		h.cfg.Addressed(n.ID, n.Address)
		news = h.gateways.Heard(n.ID, n.Epoch) || news
	}
	if news {
		h.checkNodes()
	}
}

// sweep deletes files of queues that were deleted while this node was away, or that went on without
// it. It waits until the view is current.
func (h *Host) sweep(v *catalog.View) error {
	if h.swept || !h.Current(v) {
		return nil
	}
	stored, err := h.orphans()
	if err != nil {
		return err
	}
	if err := each.Of(stored, maxOpening, h.remove); err != nil {
		return err
	}
	h.swept = true
	return nil
}

// remove closes the local member of a queue, if there is one, and deletes its files.
func (h *Host) remove(uid id.QueueUID) error {
	h.mu.Lock()
	h.unclaimed(uid)
	claim := make(chan struct{}) // so that nobody opens it while its files are deleted
	h.claims[uid] = claim
	q := h.queues[uid]
	delete(h.queues, uid)
	delete(h.damaged, uid)
	delete(h.asleep, uid)
	delete(h.joiners, uid)
	h.mu.Unlock()
	defer h.release(uid, claim)
	h.timers.Drop(uid)
	var err error
	if q != nil {
		err = q.close()
	}
	return errors.Join(err, h.cfg.Storage.DropQueue(uid))
}
