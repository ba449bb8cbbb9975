package replica

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// asleep is what a node keeps about a member that hibernates. It is not changed once it is in Host.asleep.
type asleep struct {
	leader id.NodeID           // who led last
	kept   *quorumq.Overview   // the queue's figures, on the node that led last
	spare  json.RawMessage     // the same on the others, in a form that needs less memory; nil: not known
	status *nodev1.GroupStatus // the group's status, on the node that led last

	term, last uint64 // where its log ends
	due        int64  // when it has something to do, in the cluster's time in ms; 0: never

	// What the leader's events have reported, so that they do not report it again each time that the queue wakes.
	full     bool   // that it is full
	degraded string // why dead-lettering is weaker than requested

	since   time.Time   // when it began to hibernate; zero: before this node's start
	wakeful wakefulness // its member's then
}

// woken returns the wakefulness of a member that wakes now.
func (a *asleep) woken(after time.Duration) wakefulness {
	if a.since.IsZero() {
		return 0
	}
	return a.wakeful.next(time.Since(a.since), after)
}

// figures returns the queue's figures; nil: there are none, or a newer build wrote them in a form that this one cannot read.
func (a *asleep) figures() *quorumq.Overview {
	if a.kept != nil || a.spare == nil {
		return a.kept
	}
	o := &quorumq.Overview{}
	if json.Unmarshal(a.spare, o) != nil {
		return nil
	}
	return o
}

// sleeper returns what is kept about a member that hibernates, nil if it does
// not.
func (h *Host) sleeper(uid id.QueueUID) *asleep {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.asleep[uid]
}

// SleepingLeader returns the node that led a queue last whose member here hibernates, and that will lead it again when it
// wakes; "": it does not hibernate here.
func (h *Host) SleepingLeader(uid id.QueueUID) id.NodeID {
	if a := h.sleeper(uid); a != nil {
		return a.leader
	}
	return ""
}

// Kept returns the answer of a member that hibernates, for callers that do not want to wake it. It has figures if
// this node led the queue last, or may stand in for the node that did.
func (h *Host) Kept(uid id.QueueUID) (*nodev1.QueueStatusResponse, *quorumq.Overview) {
	a := h.sleeper(uid)
	if a == nil {
		return nil, nil
	}
	kept, v := a.kept, h.cfg.Views.View()
	if r, exists := v.QueueByUID(uid); kept == nil && exists {
		if may, _ := h.standsIn(r, a.leader, h.connected(v)); may {
			kept = a.figures()
		}
	}
	return &nodev1.QueueStatusResponse{Leader: string(a.leader), Group: a.status, Hibernated: true}, kept
}

// shown returns what is kept about the hibernating queues whose figures this node shows: those that answersFor returns, if
// they can be used.
func (h *Host) shown() map[id.QueueUID]*asleep {
	v := h.cfg.Views.View()
	up := h.connected(v)
	all := h.answersFor(v, up)
	maps.DeleteFunc(all, func(uid id.QueueUID, _ *asleep) bool {
		r, exists := v.QueueByUID(uid)
		return exists && !usable(r, up)
	})
	return all
}

// answersFor returns what is kept about the hibernating queues that this node wakes when their settings change: those that it
// led last, and those for which it stands in for the node that did.
func (h *Host) answersFor(v *catalog.View, up map[id.NodeID]bool) map[id.QueueUID]*asleep {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := make(map[id.QueueUID]*asleep, len(h.asleep))
	for uid, a := range h.asleep {
		shows := a.kept != nil
		if !shows && a.spare != nil && !up[a.leader] {
			if r, exists := v.QueueByUID(uid); exists {
				_, shows = h.standsIn(r, a.leader, up)
			}
		}
		if shows {
			all[uid] = a
		}
	}
	return all
}

// standsIn reports whether this node may show the figures of a hibernating queue although another node led it last, and
// whether it does so unasked. It may if that node is not connected, and the queue is usable. Unasked, only the first member's
// node that is connected does, so that sums over nodes count the queue once.
func (h *Host) standsIn(r *catalog.QueueRecord, leader id.NodeID, up map[id.NodeID]bool) (may, unasked bool) {
	may = !up[leader] && usable(r, up)
	first := slices.IndexFunc(r.Members, func(m id.NodeID) bool { return up[m] })
	return may, may && r.Members[first] == h.cfg.Node
}

// usable reports whether a majority of the nodes of a queue's members is connected: without one, the queue cannot be used, and
// is not to look as if it could.
func usable(r *catalog.QueueRecord, up map[id.NodeID]bool) bool {
	there := 0
	for _, m := range r.Members {
		if up[m] {
			there++
		}
	}
	return 2*there > len(r.Members)
}

// connected returns the nodes to which this one is connected, and itself.
func (h *Host) connected(v *catalog.View) map[id.NodeID]bool {
	up := map[id.NodeID]bool{h.cfg.Node: true}
	for n := range v.Nodes() {
		if _, is := h.cfg.Transport.Connected(n.ID); is {
			up[n.ID] = true
		}
	}
	return up
}
