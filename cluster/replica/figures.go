package replica

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Figures yields the figures of the queues that this node leads, and of hibernating ones that it
// led last, in no order. If the node that led a hibernating queue last is not connected, the first connected node
// among its members' nodes stands in for it. A hibernating queue is left out while this node is not connected to a
// majority of its members' nodes, as an awake one has no leader then. Figures does not ask other members, so a leader
// that is cut off may yield old figures.
func (h *Host) Figures() iter.Seq2[id.QueueUID, *quorumq.Overview] {
	return func(yield func(id.QueueUID, *quorumq.Overview) bool) {
		var o quorumq.Overview
		for _, q := range h.Members() {
			if q.led.Load() == nil {
				continue
			}
			q.group.Read(func() { o = q.machine.Queue().Overview() })
			if !yield(q.uid, &o) {
				return
			}
		}
		for uid, a := range h.shown() {
			if kept := a.figures(); kept != nil && !yield(uid, kept) {
				return
			}
		}
	}
}

// Positions yields the progress of the members' logs, in no order. For a hibernating member it counts nothing behind
// its last snapshot, so that a count of new entries continues when the member wakes.
func (h *Host) Positions() iter.Seq2[id.QueueUID, raftfsm.Progress] {
	return func(yield func(id.QueueUID, raftfsm.Progress) bool) {
		open, sleeping := h.positions()
		for _, q := range open {
			if !yield(q.uid, q.group.Progress()) {
				return
			}
		}
		for uid, p := range sleeping {
			if !yield(uid, p) {
				return
			}
		}
	}
}

// positions returns the open members, and the progress of the logs of the others.
func (h *Host) positions() (open []*Member, sleeping map[id.QueueUID]raftfsm.Progress) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	open, sleeping = slices.Collect(maps.Values(h.queues)), make(map[id.QueueUID]raftfsm.Progress, len(h.asleep))
	for uid, a := range h.asleep {
		if h.queues[uid] == nil { // else it has just been opened
			sleeping[uid] = raftfsm.Progress{Term: a.term, Commit: a.last, Last: a.last, Snapshot: a.last}
		}
	}
	return open, sleeping
}

// Count returns how many members are open, and how many hibernate.
func (h *Host) Count() (open, hibernated int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.queues), len(h.asleep)
}

// Bodies returns the cache of bodies that all members share.
func (h *Host) Bodies() *raftfsm.BodyCache { return h.bodies }

// Ahead returns how far the queues that this node leads are ahead of the cluster's time: the
// largest difference.
func (h *Host) Ahead() (most time.Duration) {
	for _, q := range h.Members() {
		if q.led.Load() == nil {
			continue
		}
		if a := q.group.Ahead(); a.Abs() > most.Abs() {
			most = a
		}
	}
	return most
}

// Overview reads the queue's figures; they are not stale. It fails unless this member leads and a
// configuration is in force in its term.
func (q *Member) Overview(ctx context.Context) (quorumq.Overview, error) {
	if err := q.Barrier(ctx); err != nil {
		return quorumq.Overview{}, err
	}
	var o quorumq.Overview
	q.group.Read(func() { o = q.machine.Queue().Overview() })
	return o, nil
}

// Barrier makes sure that what is read next is not stale. It fails unless this member leads and a
// configuration is in force in its term.
func (q *Member) Barrier(ctx context.Context) error {
	if l := q.led.Load(); l == nil || !l.configured.Load() {
		leader, _ := q.group.Leader()
		return &raftfsm.NotLeaderError{Group: q.uid.Group(), Leader: leader}
	}
	return q.group.Barrier(ctx)
}

// GroupStatus returns the status of a group for other nodes.
func GroupStatus(g id.GroupID, s raftfsm.Stats, failed error) *nodev1.GroupStatus {
	out := &nodev1.GroupStatus{
		Group: uint64(g), Leader: string(s.Leader), Term: s.Term, CommitIndex: s.CommitIndex,
		AppliedIndex: s.AppliedIndex, SnapshotIndex: s.SnapshotIndex, LastIndex: s.LastIndex, State: s.State,
	}
	if failed != nil {
		out.Failed = failed.Error()
	}
	return out
}

// GroupStatus returns the status of the member's group with its voters.
func (q *Member) GroupStatus() *nodev1.GroupStatus {
	out := GroupStatus(q.uid.Group(), q.group.Stats(), q.group.Failed())
	if voters, err := q.group.Members(); err == nil { // else it has stopped
		out.Voters = id.Names(voters)
	}
	return out
}

// Snapshot returns the machine's present state.
func (q *Member) Snapshot() []byte {
	var f raftfsm.Frozen
	q.group.Read(func() { f = q.machine.Freeze() })
	return f.AppendSnapshot(nil)
}

// AtRest returns the machine's state and the index up to which it has applied entries. While
// entries are being applied, rest is false.
func (q *Member) AtRest() (state []byte, index uint64, rest bool) {
	var f raftfsm.Frozen
	index, rest = q.group.ReadAt(func() { f = q.machine.Freeze() })
	if !rest {
		return nil, 0, false
	}
	return f.AppendSnapshot(nil), index, true
}

// Progress counts the members that a node has to open when it starts, and those that are open.
type Progress struct {
	Electing    bool // all are open and wait for leaders
	Done, Total uint64
}

// Progress reports the progress of the groups that the view had at the index. While leaders are being elected, it
// checks every group.
func (h *Host) Progress(index uint64) Progress {
	if h.Ready(index) != nil {
		h.mu.RLock()
		defer h.mu.RUnlock()
		return Progress{Done: uint64(len(h.queues) + len(h.asleep)), Total: uint64(h.wanted)}
	}
	p := Progress{Electing: true}
	for _, q := range h.Members() {
		p.Total++
		if leader, _ := q.group.Leader(); leader != "" || q.group.Failed() != nil {
			p.Done++
		}
	}
	h.mu.RLock()
	p.Done, p.Total = p.Done+uint64(len(h.asleep)), p.Total+uint64(len(h.asleep)) // their leaders come as soon as somebody asks for them
	h.mu.RUnlock()
	return p
}
