package replica

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// A queue that nobody uses hibernates: its members are closed, and all that remains of each is its
// part of the node's log and an asleep. The leader decides this when all members have the whole
// log; it closes its own member last. A member wakes when somebody asks for the queue at its node,
// when a Raft call for its group arrives, when the queue's record changes, or when the queue has
// something to do. It surveys the other members at once, and so wakes them too. See
// docs/adr/0011-hibernation.md.

const (
	// maxHibernating limits the groups in one message, and those of a node that are closed in one
	// round.
	maxHibernating = 512
	// hibernateTimeout is how long a node waits until a peer has closed members.
	hibernateTimeout = 10 * time.Second
	// hibernateRounds is how often a node checks its queues within Config.HibernateAfter.
	hibernateRounds = 4
	// snapshotBeforeSleep is a number of entries after the last snapshot. If there are more, a
	// snapshot is taken first, so that waking need not apply them. excessBeforeSleep is a number of
	// bytes of the log that the queue no longer needs. If there are more, a snapshot is worthwhile,
	// because nobody frees them while the queue hibernates.
	snapshotBeforeSleep = 4096
	excessBeforeSleep   = 256 << 10
	// nothingNew is a number of entries after the last snapshot: waking and electing a leader add fewer. With no
	// more, another snapshot frees nothing.
	nothingNew = 16
	// longestRestless is how much longer a queue rests, at most, before it is tried again after not all of its members
	// could be closed.
	longestRestless = time.Hour
	// maxAheadAsleep is how far the time of a hibernating queue that has something to do may be ahead of the
	// cluster's: the queue does it that much too late.
	maxAheadAsleep = time.Second
	// wakeRetry is the wait before a node tries again to wake a queue that has something to do.
	wakeRetry = 2 * time.Second
	// applyWait limits how long a member that is about to close waits until it has applied its log.
	applyWait = time.Second
	// surveyWake limits how long the answer to a survey waits for members to wake.
	surveyWake = 300 * time.Millisecond
)

// resting is a queue that this node leads and that may hibernate.
type resting struct {
	queue *Member
	wire  *nodev1.RestingGroup
}

// hibernate makes idle queues that this node leads hibernate, until stop is closed.
func (h *Host) hibernate(stop <-chan struct{}) {
	after := h.cfg.HibernateAfter
	if after <= 0 {
		return
	}
	round := time.NewTicker(max(after/hibernateRounds, 10*time.Millisecond))
	defer round.Stop()
	for {
		select {
		case <-round.C:
		case <-stop:
			return
		}
		for all := h.resting(after); len(all) > 0; {
			n := min(len(all), maxHibernating)
			h.layDown(all[:n])
			all = all[n:]
		}
		h.writeHibernationRecordsSoon()
	}
}

// resting returns the queues that this node leads and that have nothing to do.
func (h *Host) resting(after time.Duration) []resting {
	var all []resting
	for _, q := range h.Members() {
		if !q.rested(q.group.Idle(), after) {
			continue
		}
		if w := q.rests(after); w != nil {
			all = append(all, resting{q, w})
		}
	}
	return all
}

// rested reports whether a queue that has been idle for so long has rested for long enough.
func (q *Member) rested(idle, after time.Duration) bool {
	if idle < after {
		q.restless = 0
	}
	return idle >= max(q.wakeful.rest(after), q.restless)
}

// keepAwake wakes the members that are closed, because others could not be.
func (q *Member) keepAwake() {
	q.restless = nextRest(q.group.Idle())
	q.group.Push()
}

// nextRest returns how long a queue has to rest before it is tried again, which has rested so long and could not hibernate:
// twice as long, because a node that cannot close its member, or may not, would have the others close and open theirs for
// ever. A node that was away for days is not to keep the queue awake for as long again.
func nextRest(idle time.Duration) time.Duration {
	return idle + min(idle, longestRestless)
}

// rests returns the group's present state if this member leads it, nothing is in progress and
// nothing depends on it; otherwise nil.
func (q *Member) rests(after time.Duration) *nodev1.RestingGroup {
	l := q.led.Load()
	s := q.group.Stats()
	if l == nil || !l.configured.Load() || s.PendingBytes > 0 || s.CommitIndex != s.LastIndex || q.group.Failed() != nil {
		return nil
	}
	if q.exports.Load() > 0 || !q.othersConnected() || q.h.above.Forwarders.Copying(l) {
		return nil
	}
	// The entries that Stats has counted are all in the state, unless some are being applied.
	var o quorumq.Overview
	var at quorumq.Time
	if _, applied := q.group.ReadAt(func() { o, at = q.machine.Queue().Overview(), q.machine.Queue().Timer() }); !applied {
		return nil
	}
	if o.Consumers+o.Sessions > 0 || o.Unsettled+o.Backlog > 0 || q.isAsked(true) {
		return nil
	}
	due, may := q.dueAsleep(at, after)
	if !may {
		return nil
	}
	return &nodev1.RestingGroup{Group: uint64(q.uid), Term: l.term, LastIndex: s.LastIndex, DueMs: due}
}

// dueAsleep returns when a hibernating queue that has asked for an Expire at a time of its own must wake: in the
// cluster's time, 0 for never. The queue may not hibernate if that is soon, nor while its time is ahead of the
// cluster's, because its time advances only while somebody leads the queue. The timer is not asked: it is dropped
// when it fires, and set again when the Expire was applied.
func (q *Member) dueAsleep(at quorumq.Time, after time.Duration) (due int64, may bool) {
	if at == 0 {
		return 0, true
	}
	due = q.due(at)
	return due, due >= q.h.cfg.Clock.NowMs()+after.Milliseconds() && q.group.Ahead() <= maxAheadAsleep
}

// othersConnected reports whether the nodes of all other members are connected.
func (q *Member) othersConnected() bool {
	r, exists := q.h.cfg.Views.View().QueueByUID(q.uid)
	return exists && !slices.ContainsFunc(r.Members, func(n id.NodeID) bool {
		_, up := q.h.cfg.Transport.Connected(n)
		return !up && n != q.h.cfg.Node
	})
}

// isAsked reports whether the newest view asks something of the queue for which its members must be open; of one that
// leads also whether it should have other settings.
func (q *Member) isAsked(leads bool) bool {
	v := q.h.cfg.Views.View()
	r, exists := v.QueueByUID(q.uid)
	return !exists || asks(r) || leads && q.h.settingsDiffer(v, r, q.config())
}

// layDown closes the members of groups that this node leads, those of other nodes first. If not all
// members of a group could be closed, the group is kept awake.
func (h *Host) layDown(all []resting) {
	closed := h.layDownPeers(all)
	var rest []resting
	for i, r := range all {
		if closed[i] {
			rest = append(rest, r)
		} else {
			r.queue.keepAwake()
		}
	}
	_ = each.Of(rest, maxOpening, func(r resting) error {
		if !h.fallAsleep(r.queue, r.wire, h.cfg.Node) {
			r.queue.keepAwake()
		}
		return nil
	})
}

// layDownPeers asks the nodes of all other members, and returns for each group whether these
// members are all closed.
func (h *Host) layDownPeers(all []resting) []bool {
	at := map[id.NodeID][]int{}
	closed := make([]bool, len(all))
	for i, r := range all {
		if record, exists := h.cfg.Views.View().QueueByUID(r.queue.uid); exists {
			closed[i] = true
			for _, m := range record.Members {
				if m != h.cfg.Node {
					at[m] = append(at[m], i)
				}
			}
		}
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for n, places := range at {
		asked.Go(func() {
			request := &nodev1.HibernateRequest{}
			for _, i := range places {
				request.Groups = append(request.Groups, all[i].wire)
			}
			answers := h.askToHibernate(n, request)
			mu.Lock()
			defer mu.Unlock()
			for k, i := range places {
				closed[i] = closed[i] && k < len(answers) && answers[k]
			}
		})
	}
	asked.Wait()
	return closed
}

// askToHibernate returns nothing if the peer does not answer; then its members count as open.
func (h *Host) askToHibernate(n id.NodeID, r *nodev1.HibernateRequest) []bool {
	ctx, cancel := context.WithTimeout(h.cfg.Life, hibernateTimeout)
	defer cancel()
	peer, err := h.cfg.Transport.Client(n)
	var w *nodev1.HibernateResponse
	if err == nil {
		w, err = peer.Hibernate(ctx, r)
	}
	if err != nil {
		h.cfg.Logger.Debug("a node does not let queues hibernate", "peer", string(n), "queues", len(r.GetGroups()), "error", err)
	}
	return w.GetClosed()
}

// Hibernate closes members of groups that a peer leads, if their logs end where the peer says.
func (h *Host) Hibernate(ctx context.Context, r *nodev1.HibernateRequest) (*nodev1.HibernateResponse, error) {
	w := &nodev1.HibernateResponse{Closed: make([]bool, len(r.GetGroups()))}
	places := make([]int, len(w.Closed))
	for i := range places {
		places[i] = i
	}
	err := each.Of(places, maxOpening, func(i int) error {
		if err := ctx.Err(); err != nil {
			return err // the leader counts this member as open
		}
		g := r.GetGroups()[i]
		if q := h.Member(id.QueueUID(g.GetGroup())); q != nil && h.cfg.HibernateAfter > 0 {
			leader, term := q.group.Leader()
			w.Closed[i] = q.led.Load() == nil && leader != h.cfg.Node && term == g.GetTerm() && h.fallAsleep(q, g, leader)
		} else {
			w.Closed[i] = h.sleepsAt(g)
		}
		return nil
	})
	return w, err
}

// fallAsleep closes a member if its log is as it should be, and reports whether it has. From then
// on, whoever asks for the member wakes it as soon as it is closed.
func (h *Host) fallAsleep(q *Member, g *nodev1.RestingGroup, leader id.NodeID) bool {
	if !q.mayClose(g) {
		return false
	}
	if q.snapshotPays() && q.group.SnapshotAtRest() != nil {
		return false
	}
	a := &asleep{
		leader: leader, term: g.GetTerm(), last: g.GetLastIndex(), due: g.GetDueMs(), since: time.Now(), wakeful: q.wakeful,
	}
	a.keepFigures(q)
	h.mu.Lock()
	h.unclaimed(q.uid)
	if h.closed || h.queues[q.uid] != q {
		h.mu.Unlock()
		return false
	}
	claim := make(chan struct{})
	h.claims[q.uid] = claim
	delete(h.queues, q.uid)
	h.asleep[q.uid] = a
	h.mu.Unlock()
	defer h.release(q.uid, claim)
	// Check again: what came before the member was made unreachable shows by now. If nothing did, the figures are those of
	// the log's end. A view that comes later finds the member asleep, and wakes it if it asks for something (Host.compare).
	if !q.mayClose(g) || q.isAsked(leader == h.cfg.Node) {
		h.stayAwake(q)
		return false
	}
	h.closeHidden(q)
	h.remember(q.uid, a)
	h.mu.Lock()
	h.unsaved = true
	h.mu.Unlock()
	return true
}

// keepFigures keeps the figures of a queue that is at rest, before its member closes. A follower that does not apply its
// whole log in time keeps none.
func (a *asleep) keepFigures(q *Member) {
	leads := a.leader == q.h.cfg.Node
	if !leads && !q.appliesAll() {
		return
	}
	var o quorumq.Overview
	q.group.Read(func() { o = q.machine.Queue().Overview() })
	if leads {
		a.kept, a.status, a.full = &o, q.GroupStatus(), q.full.said()
		v := q.h.cfg.Views.View()
		if r, exists := v.QueueByUID(q.uid); exists {
			a.degraded = q.h.cfg.Policies.Degraded(v, r)
		}
	} else if text, err := json.Marshal(&o); err == nil {
		a.spare = text
	}
}

// appliesAll waits until a member whose log is committed has applied it: a follower may have just learned of the commit.
func (q *Member) appliesAll() bool {
	ctx, cancel := context.WithTimeout(q.h.cfg.Life, applyWait)
	defer cancel()
	for !q.group.AppliedAll() {
		if wait.For(ctx, time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// snapshotPays reports whether a snapshot before the queue hibernates spares more than it costs.
func (q *Member) snapshotPays() bool {
	s := q.group.Stats()
	since := s.LastIndex - s.SnapshotIndex
	return since > snapshotBeforeSleep || since > nothingNew && q.group.Excess() > excessBeforeSleep ||
		since > 0 && q.group.TrailingBytes() > excessBeforeSleep
}

// mayClose reports whether a member that is to hibernate may be closed. What an export reads, only an open member keeps.
func (q *Member) mayClose(g *nodev1.RestingGroup) bool { return q.isAt(g) && q.exports.Load() == 0 }

// stayAwake makes a member that was about to hibernate reachable again, and lets it process what it may have missed
// meanwhile. If all members were closed in the meantime, because the disk is full or the host stops, this one was not
// among them, so it is closed too.
func (h *Host) stayAwake(q *Member) {
	h.mu.Lock()
	delete(h.asleep, q.uid)
	stays := !h.closed && !h.full
	if stays {
		h.queues[q.uid] = q
	}
	h.mu.Unlock()
	if !stays {
		h.closeHidden(q)
		return
	}
	q.box.Post(func() { q.heedRecord(); q.checkNodes() })
}

// closeHidden closes a member that nobody can reach any longer.
func (h *Host) closeHidden(q *Member) {
	if err := q.close(); err != nil {
		h.cfg.Logger.Warn("closing a queue's member that hibernates", "queue", q.uid.String(), "error", err)
	}
}

// isAt reports whether the member's log is exactly as it should be, with everything committed. Whether all of it is
// applied matters only for the figures that are kept.
func (q *Member) isAt(g *nodev1.RestingGroup) bool {
	s := q.group.Stats()
	return s.Term == g.GetTerm() && s.LastIndex == g.GetLastIndex() && s.CommitIndex == s.LastIndex &&
		s.PendingBytes == 0 && q.group.Failed() == nil
}

// WakeFor wakes the groups of a survey that hibernate here, and waits a moment for them, because
// the sender needs their votes. A sender without a log only asks who leads.
func (h *Host) WakeFor(ctx context.Context, r *nodev1.SurveyRequest) {
	ctx, cancel := context.WithTimeout(ctx, surveyWake)
	defer cancel()
	var waking []id.QueueUID
	for _, g := range r.GetGroups() {
		uid := id.QueueUID(g.GetGroup())
		if g.GetLastIndex() > 0 && h.sleeper(uid) != nil && h.Wake(uid) {
			waking = append(waking, uid)
		}
	}
	for _, uid := range waking {
		for h.sleeper(uid) != nil {
			if wait.For(ctx, time.Millisecond) != nil {
				return
			}
		}
	}
}

// sleepsAt reports whether a member hibernates with the log that it should have. If its log is
// another one, because the node was away, it wakes the member.
func (h *Host) sleepsAt(g *nodev1.RestingGroup) bool {
	a := h.sleeper(id.QueueUID(g.GetGroup()))
	if a == nil {
		return false
	}
	same := a.term == g.GetTerm() && a.last == g.GetLastIndex()
	if !same {
		h.WakeInBackground(id.QueueUID(g.GetGroup()))
	}
	return same
}
