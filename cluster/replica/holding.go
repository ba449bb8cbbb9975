package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// duty is what this node has to do about its member of a queue.
type duty uint8

const (
	dutyNone duty = iota
	dutyOpen
	dutyDrop  // close it and delete its files
	dutyRenew // the same, then open it empty once it has its base, so that it joins its group
)

// Joins returns the change with which a node should join a queue's group, nil if it should not, or
// not yet.
func Joins(r *catalog.QueueRecord, n id.NodeID) *catalog.MemberChange {
	if r.Change == nil || r.Change.Join != n || slices.Contains(r.Members, n) {
		return nil
	}
	return r.Change
}

// Current reports whether a view shows everything that the catalog had committed when this node
// started. An older view may say that this node is not a member yet of a queue in which it already
// votes. Whoever deletes files because of it, or opens a group without any, could make the node
// forget its votes.
func (h *Host) Current(v *catalog.View) bool {
	at := h.cfg.Catalog.Registered()
	return at > 0 && v.Index() >= at
}

// past reports whether a queue ended with an earlier life of this node: then the node's
// registration deletes it.
func (h *Host) past(r *catalog.QueueRecord) bool { return !r.Durable && r.Home < h.cfg.Epoch }

// due returns what to do about a queue of the view. Only the reconcile loop calls it.
func (h *Host) due(r *catalog.QueueRecord, current bool) duty {
	q, closed := h.Member(r.UID), h.keptClosed(r.UID)
	held := q != nil || closed || h.sleepsWhole(r.UID)
	stored := func() bool { return held || h.cfg.Storage.HasQueue(r.UID) } // members are closed while the disk is full
	g := Joins(r, h.cfg.Node)
	switch {
	case !r.Holds(h.cfg.Node):
		if current && stored() {
			return dutyDrop
		}
	case h.past(r):
	case g == nil:
		// A node whose directory was lost must not vote in groups that it has forgotten. So it
		// opens no group without a log until the catalog has registered it.
		if !held && (current || h.cfg.Storage.Has(r.UID.Group())) {
			return dutyOpen
		}
	case !current || q != nil && q.joined == g.ID:
	// A member that is open is known to be of another membership. What is stored is deleted only if that is
	// certain: what this change has begun may have got its vote without this node's knowledge.
	case closed && h.Begun(r.UID, g):
		// The member was damaged before it had joined. Its leader gives up the change.
	case q == nil && h.Begun(r.UID, g):
		return dutyOpen
	case g.Cancelled:
		// The change is taken back, perhaps because the node's former store had begun to join and
		// may have got its vote (RE-9).
	case stored():
		return dutyRenew
	default:
		return dutyOpen
	}
	return dutyNone
}

// sleepsWhole reports whether a member hibernates and the log has all of it. If the log found damage while the disk was full, or
// before the view had the queue, the member could not be opened then: it is opened now, as only then the damage is repaired.
func (h *Host) sleepsWhole(uid id.QueueUID) bool {
	return h.sleeper(uid) != nil && h.cfg.Storage.LostGroup(uid.Group()) == nil
}

// Begun reports whether this node's member has begun to join by a change, so that it may have its vote, or
// nobody knows whether it has. It may be called concurrently.
func (h *Host) Begun(uid id.QueueUID, g *catalog.MemberChange) bool {
	joined, _, err := h.cfg.Dir.Joined(uid)
	return err != nil || joined == g.ID
}

// prepare returns the change that a member belongs to, and its base. If the member joins by a change, it
// marks the member's directory with both, once the log has a record of the member. So a member that is
// marked, and of which the log has nothing, is not new: it has lost what it had. current means that the record is of
// a view that is (Host.Current).
func (h *Host) prepare(r *catalog.QueueRecord, current bool) (joined uint64, base raftfsm.Base, err error) {
	joined, base, err = h.cfg.Dir.Joined(r.UID)
	g := Joins(r, h.cfg.Node)
	switch {
	case g == nil && err != nil && !current:
		// It may join by a change that this view does not show: then it must have its base.
		return 0, base, fmt.Errorf("cluster: queue %s: its member here waits for a newer view of the catalog, which says whether it still joins: %w", r.UID, err)
	case g == nil:
		return joined, base, nil // with an error too: it has joined, so its log is as new as its base
	case err != nil:
		return 0, base, fmt.Errorf("cluster: queue %s: by which change its member here joins cannot be read: %w: %w", r.UID, wal.ErrLost, err)
	case joined == g.ID && !h.cfg.Storage.Has(r.UID.Group()):
		return 0, base, fmt.Errorf("cluster: queue %s: its member here has begun to join by change %d, and has nothing in the node's log: %w",
			r.UID, g.ID, wal.ErrLost)
	case joined == g.ID:
		return joined, base, nil
	}
	if base, err = h.takeBase(r.UID, g.ID); err != nil {
		return 0, base, err
	}
	if err := h.cfg.Storage.Begin(r.UID); err != nil {
		return 0, base, err
	}
	return g.ID, base, h.cfg.Dir.SetJoined(r.UID, g.ID, base)
}

// takeBase returns the base that was given for a change.
func (h *Host) takeBase(uid id.QueueUID, change uint64) (raftfsm.Base, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.joiners[uid]
	if j == nil || j.change != change || !j.known {
		return raftfsm.Base{}, fmt.Errorf("cluster: queue %s: its member here has no base yet for change %d", uid, change)
	}
	return j.base, nil
}

// founders returns the members with which this node may write the first configuration of a queue's group, if it has
// nothing of the group; nil: it must not. While the queue's members have not changed since the declaration, no member has
// had its place taken. Later a member without a log may have forgotten it; but not if the queue was declared after this
// process has begun: then nothing of it was ever stored here, and the first configuration is the same for all who write it.
func (h *Host) founders(r *catalog.QueueRecord) []id.NodeID {
	at := h.cfg.Catalog.Registered()
	switch {
	case r.Changed == 0:
		return r.Members
	case at == 0 || Joins(r, h.cfg.Node) != nil:
		return nil
	}
	if all := r.FoundersSince(at); slices.Contains(all, h.cfg.Node) {
		return all
	}
	return nil
}

// drop removes the local member of a queue that continues without it.
func (h *Host) drop(uid id.QueueUID) error {
	err := h.remove(uid)
	if err == nil {
		h.cfg.Logger.Info("this node's member of a queue is closed and deleted: it is no member any more", "queue", uid.String())
	}
	return err
}

// orphans returns the queues that have files here although this node has no member of them. It takes the view after it has
// found the files: a queue that was opened on demand meanwhile is in that one, but not in an older one.
func (h *Host) orphans() ([]id.QueueUID, error) {
	stored, err := h.cfg.Storage.Queues()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	v := h.cfg.Views.View()
	return slices.DeleteFunc(stored, func(uid id.QueueUID) bool {
		r, exists := v.QueueByUID(uid)
		return exists && r.Holds(h.cfg.Node)
	}), nil
}

// endGap is for a log that has lost records without showing whose they were. It determines which
// members have lost everything: those that this node has according to the catalog, and that have
// no record in the log. Files beside the log show nothing: a directory may be there without a snapshot.
func (h *Host) endGap(v *catalog.View) error {
	if h.cfg.Storage.Gap() == nil || !h.Current(v) {
		return nil
	}
	var lost []id.GroupID
	for r := range v.Queues() {
		if r.Holds(h.cfg.Node) && !h.cfg.Storage.Has(r.UID.Group()) {
			lost = append(lost, r.UID.Group())
		}
	}
	if err := h.cfg.Storage.EndGap(lost); err != nil {
		return fmt.Errorf("cluster: members that are lost with damaged records: %w", err)
	}
	return nil
}

// forgotten fails if a member has nothing stored although it must have had something: it votes in a
// group that has changed since the declaration, so its votes are lost. A founder can be new to the group even so.
func (h *Host) forgotten(r *catalog.QueueRecord, founder bool, log raftfsm.Storage) error {
	if founder || Joins(r, h.cfg.Node) != nil {
		return nil
	}
	last, err := log.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	if datadir.HasSnapshot(h.cfg.Dir.Queue(r.UID)) {
		return nil
	}
	return fmt.Errorf("it has no log, but it is not new, as the queue's members have changed: %w", wal.ErrLost)
}
