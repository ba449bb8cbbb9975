package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

// change takes the next step of the current change. nil: it was taken.
func (m *Changer) change(ctx context.Context, q *replica.Member, s *changeState) error {
	r, ok := m.cfg.Views.View().QueueByUID(q.UID())
	if !ok || r.Change == nil || r.Change.ID != s.id {
		return nil
	}
	g := r.Change
	at, err := q.Group().Configuration()
	if err != nil {
		return err
	}
	switch g.Next(at.Committed(), at.Voters) {
	case catalog.AwaitCommit:
		return m.waits(s, "the group's configuration with the members %q is not committed yet: a majority of them must have it", at.Voters)
	case catalog.Revert:
		return m.revert(ctx, q, s, g, at)
	case catalog.TakeOut:
		return m.leave(ctx, q, s, g.Leave, at)
	default: // catalog.LetIn
		return m.join(ctx, q, s, g, at)
	}
}

// revert undoes what has not taken effect.
func (m *Changer) revert(ctx context.Context, q *replica.Member, s *changeState, g *catalog.MemberChange, at raftfsm.Configuration) error {
	if slices.Contains(at.Nonvoters, g.Join) {
		if err := m.reconfigure(ctx, q, s, func(ctx context.Context) error { return q.Group().RemoveServer(ctx, g.Join, at.Index) }); err != nil {
			return err
		}
	}
	return m.completeFound(ctx, q, s, catalog.StepCancelled)
}

// leave takes a node out of the group.
func (m *Changer) leave(ctx context.Context, q *replica.Member, s *changeState, n id.NodeID, at raftfsm.Configuration) error {
	if !slices.Contains(at.Voters, n) && !slices.Contains(at.Nonvoters, n) {
		return m.completeFound(ctx, q, s, catalog.StepLeft)
	}
	stay := slices.DeleteFunc(slices.Clone(at.Voters), func(v id.NodeID) bool { return v == n })
	there := m.there(ctx, q, stay)
	if len(there) < len(stay)/2+1 {
		return m.waits(s, "node %q cannot leave: of the members that stay, %q, a majority must be there, and only %q are", n, stay, there)
	}
	if n == m.cfg.Node {
		return m.handOff(ctx, q, s, there)
	}
	m.reports(s, operation.Progress{Phase: PhaseLeave, Detail: fmt.Sprintf("node %q leaves", n)})
	err := m.reconfigure(ctx, q, s, func(ctx context.Context) error { return q.Group().RemoveServer(ctx, n, at.Index) })
	if err != nil {
		return err
	}
	return m.complete(ctx, q, s, catalog.StepLeft)
}

// handOff lets another member lead, which then continues the change.
func (m *Changer) handOff(ctx context.Context, q *replica.Member, s *changeState, to []id.NodeID) error {
	m.reports(s, operation.Progress{Phase: PhaseLeave, Detail: fmt.Sprintf("node %q leads and leaves: another member takes over", m.cfg.Node)})
	var errs []error
	for _, n := range to {
		ctx, cancel := context.WithTimeout(ctx, memberTimeout)
		err := q.Group().TransferLeadership(ctx, n)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return m.waits(s, "node %q leads and leaves, and no other member has taken over: %w", m.cfg.Node, errors.Join(errs...))
}

// join makes a node a member without a vote, and with one when it has caught up.
func (m *Changer) join(ctx context.Context, q *replica.Member, s *changeState, g *catalog.MemberChange, at raftfsm.Configuration) error {
	if slices.Contains(at.Voters, g.Join) {
		return m.completeFound(ctx, q, s, catalog.StepJoined)
	}
	if !slices.Contains(at.Nonvoters, g.Join) {
		m.shorten(ctx, q, s, g, at.Voters)
		return m.reconfigure(ctx, q, s, func(ctx context.Context) error { return q.Group().AddNonvoter(ctx, g.Join) })
	}
	if err := m.catchUp(ctx, q, s, g); err != nil {
		return err
	}
	all := append(slices.Clone(at.Voters), g.Join)
	if there := m.there(ctx, q, all); len(there) < len(all)/2+1 {
		return m.waits(s, "node %q cannot get its vote: of the members %q a majority must be there, and only %q are", g.Join, all, there)
	}
	m.reports(s, operation.Progress{Phase: PhaseJoin, Detail: fmt.Sprintf("node %q gets its vote", g.Join)})
	if err := m.reconfigure(ctx, q, s, func(ctx context.Context) error { return q.Group().AddVoter(ctx, g.Join) }); err != nil {
		return err
	}
	return m.complete(ctx, q, s, catalog.StepJoined)
}

// shorten takes a snapshot if the log is long, so that a joining member gets the queue's state and not its history. Without
// one it gets the whole log, which only takes longer. So none is taken that would have the same happen to another member,
// and one at most on a leader: the change may wait long for the catalog, in one attempt after another.
func (m *Changer) shorten(ctx context.Context, q *replica.Member, s *changeState, g *catalog.MemberChange, voters []id.NodeID) {
	if s.shortened || !q.Group().Stats().Long() || !m.upToDate(ctx, q, g, voters) {
		return
	}
	s.shortened = true
	if err := q.Group().Snapshot(); err != nil {
		m.cfg.Logger.Warn("no snapshot for a joining member: it gets the whole log", "queue", q.UID().String(), "error", err)
	}
}

// upToDate reports whether the other voters lack no entry that a snapshot would drop from the log: they would get the whole
// queue instead. One that does not answer may be back at any time. The one that leaves is soon wiped.
func (m *Changer) upToDate(ctx context.Context, q *replica.Member, g *catalog.MemberChange, voters []id.NodeID) bool {
	others := slices.DeleteFunc(slices.Clone(voters), func(n id.NodeID) bool { return n == m.cfg.Node || n == g.Leave })
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	last, kept := q.Group().Stats().LastIndex, q.Group().Trailing()
	have := peer.Each(others, func(n id.NodeID) bool {
		r, err := m.cfg.Leaders.StatusAt(ctx, n, q.UID())
		return err == nil && hasNearly(r.GetGroup(), last, kept)
	})
	return len(have) == len(others)
}

// hasNearly reports whether a member that runs lacks few enough of the entries up to last, where a snapshot leaves so many
// behind.
func hasNearly(g *nodev1.GroupStatus, last, kept uint64) bool {
	return g != nil && g.GetFailed() == "" && g.GetLastIndex()+kept/trailingShare >= last
}

// catchUp waits until the joining member has what was committed when it was asked for,
// and nearly what is committed now. One that has failed, or makes no progress for
// joinPatience, makes it give the change up.
func (m *Changer) catchUp(ctx context.Context, q *replica.Member, s *changeState, g *catalog.MemberChange) error {
	target := q.Group().Stats().CommitIndex
	begun := time.Now()
	answered := false // by the member, the last time that it was asked
	for {
		applied, err := m.joining(ctx, q, g)
		if err == nil && !answered {
			// It may have opened after raft's calls were refused, which repeats none.
			q.Group().Push()
		}
		answered = err == nil
		if s.gains(time.Now(), applied, q.Group().Sent(g.Join)) {
			begun = time.Now()
		}
		commit := q.Group().Stats().CommitIndex
		if err == nil && applied >= target && applied+maxJoinLag >= commit {
			return nil
		}
		if s.stuck(time.Now()) || errors.Is(err, errMemberFailed) {
			m.cfg.Logger.Warn("a member cannot join: the change is taken back", "queue", q.UID().String(), "member", string(g.Join), "error", err)
			return errors.Join(err, m.giveUp(ctx, q, s))
		}
		switch {
		case err != nil:
			err = m.waits(s, "node %q has not opened its member yet: %w", g.Join, err)
		default:
			m.reports(s, operation.Progress{
				Phase: PhaseCatchUp, Done: int64(applied), Total: int64(commit), Unit: "entries",
				Detail: fmt.Sprintf("node %q receives the log", g.Join),
			})
		}
		if time.Since(begun) > joinStall {
			return errors.Join(err, fmt.Errorf("node %q has made no progress for %v", g.Join, joinStall))
		}
		if err := wait.For(ctx, joinTick); err != nil {
			return err
		}
		if q.Led() == nil {
			return fmt.Errorf("%w: queue %s: leadership was lost", traffic.ErrUnavailable, q.UID())
		}
		if r, ok := m.cfg.Views.View().QueueByUID(q.UID()); !ok || r.Change == nil || r.Change.ID != s.id || r.Change.Cancelled {
			return errChangeOver
		}
	}
}

var (
	// errMemberFailed marks a joining member that stopped because of a failure of its own.
	errMemberFailed = errors.New("its member has failed")
	// errChangeOver marks a change that is over, or to be taken back.
	errChangeOver = errors.New("the change does not go on")
)

// joining asks the joining node what its member has applied. A member that is not of this
// change does not count: it would be wiped.
func (m *Changer) joining(ctx context.Context, q *replica.Member, g *catalog.MemberChange) (applied uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	r, err := m.cfg.Leaders.StatusAt(ctx, g.Join, q.UID())
	if err != nil {
		return 0, err
	}
	switch failed := r.GetGroup().GetFailed(); {
	case r.GetJoined() != g.ID:
		return 0, fmt.Errorf("its member is of change %d, this one is %d", r.GetJoined(), g.ID)
	case failed != "":
		return 0, fmt.Errorf("%w: %s", errMemberFailed, failed)
	}
	return r.GetGroup().GetAppliedIndex(), nil
}

// giveUp asks the catalog to take the change back; the next attempt does so.
func (m *Changer) giveUp(ctx context.Context, q *replica.Member, s *changeState) error {
	_, err := m.cfg.Catalog.Propose(ctx, &catalog.CancelMemberChange{UID: q.UID(), Change: s.id})
	return err
}

// there returns those of the nodes whose members run.
func (m *Changer) there(ctx context.Context, q *replica.Member, nodes []id.NodeID) []id.NodeID {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	return peer.Each(nodes, func(n id.NodeID) bool {
		r, err := m.cfg.Leaders.StatusAt(ctx, n, q.UID())
		return err == nil && r.GetGroup().GetFailed() == ""
	})
}

// reconfigure changes the group's configuration after the catalog has confirmed that the change is still current:
// this node's view may show a change that is long over.
func (m *Changer) reconfigure(ctx context.Context, q *replica.Member, s *changeState, change func(context.Context) error) error {
	if err := m.complete(ctx, q, s, catalog.StepNone); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	err := change(ctx)
	m.cfg.Reconfigured(q.UID().Group())
	if err != nil {
		return m.waits(s, "changing the group's configuration: %w", err)
	}
	return nil
}

// completeFound writes to the catalog that a step is done which this member finds done in the configuration. A leader that was
// replaced and does not know may have one from before the change, so a majority has to confirm first that this member
// leads: files are deleted by what the catalog says.
func (m *Changer) completeFound(ctx context.Context, q *replica.Member, s *changeState, step catalog.MemberStep) error {
	asking, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	if err := q.Group().Verify(asking); err != nil {
		return m.waits(s, "a majority of the members must confirm that this node leads: %w", err)
	}
	return m.complete(ctx, q, s, step)
}

// complete writes to the catalog that a step is done.
func (m *Changer) complete(ctx context.Context, q *replica.Member, s *changeState, step catalog.MemberStep) error {
	_, err := m.cfg.Catalog.Propose(ctx, &catalog.CompleteMemberStep{UID: q.UID(), Change: s.id, Step: step})
	var refused *catalog.Error
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errChangeOver, err)
	}
	if err != nil {
		return m.waits(s, "the catalog does not answer: %w", err)
	}
	return nil
}
