package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/raftfsm"
)

// changeMembers takes the next step of the change that goes on. nil: it was taken.
func (q *hosted) changeMembers(ctx context.Context, s *changeState) error {
	r, ok := q.h.c.views.View().QueueByUID(q.uid)
	if !ok || r.Change == nil || r.Change.ID != s.id {
		return nil
	}
	g := r.Change
	at, err := q.group.Configuration()
	if err != nil {
		return err
	}
	votes := func(n id.NodeID) bool { return slices.Contains(at.Voters, n) }
	rebuild := g.Join != "" && g.Join == g.Leave
	switch {
	case g.Cancelled && (g.Join == "" || rebuild) && votes(g.Leave),
		g.Cancelled && g.Join != "" && !rebuild && !votes(g.Join):
		return q.takeBack(ctx, s, g, at)
	case g.Leave != "" && (rebuild || g.Join == ""):
		return q.leave(ctx, s, g.Leave, at)
	}
	return q.join(ctx, s, g, at)
}

// takeBack undoes what has not taken effect.
func (q *hosted) takeBack(ctx context.Context, s *changeState, g *catalog.MemberChange, at raftfsm.Configuration) error {
	if slices.Contains(at.Nonvoters, g.Join) {
		if err := q.reconfigure(ctx, s, func(ctx context.Context) error { return q.group.RemoveServer(ctx, g.Join, at.Index) }); err != nil {
			return err
		}
	}
	return q.settle(ctx, s, catalog.StepCancelled)
}

// leave takes a node out of the group.
func (q *hosted) leave(ctx context.Context, s *changeState, n id.NodeID, at raftfsm.Configuration) error {
	m := q.h.c.changes
	if !slices.Contains(at.Voters, n) && !slices.Contains(at.Nonvoters, n) {
		return q.settle(ctx, s, catalog.StepLeft)
	}
	stay := slices.DeleteFunc(slices.Clone(at.Voters), func(v id.NodeID) bool { return v == n })
	there := q.there(ctx, stay)
	if len(there) < len(stay)/2+1 {
		return m.waits(s, "node %q cannot leave: of the members that stay, %q, a majority must be there, and only %q are", n, stay, there)
	}
	if n == q.h.c.cfg.Node {
		return q.handOff(ctx, s, there)
	}
	m.reports(s, Progress{Phase: PhaseLeave, Detail: fmt.Sprintf("node %q leaves", n)})
	err := q.reconfigure(ctx, s, func(ctx context.Context) error { return q.group.RemoveServer(ctx, n, at.Index) })
	if err != nil {
		return err
	}
	return q.settle(ctx, s, catalog.StepLeft)
}

// handOff lets another member lead, which then goes on with the change.
func (q *hosted) handOff(ctx context.Context, s *changeState, to []id.NodeID) error {
	m := q.h.c.changes
	m.reports(s, Progress{Phase: PhaseLeave, Detail: fmt.Sprintf("node %q leads and leaves: another member takes over", q.h.c.cfg.Node)})
	var errs []error
	for _, n := range to {
		ctx, cancel := context.WithTimeout(ctx, memberTimeout)
		err := q.group.TransferLeadership(ctx, n)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return m.waits(s, "node %q leads and leaves, and no other member has taken over: %w", q.h.c.cfg.Node, errors.Join(errs...))
}

// join makes a node a member without a vote, and with one when it has caught up.
func (q *hosted) join(ctx context.Context, s *changeState, g *catalog.MemberChange, at raftfsm.Configuration) error {
	m := q.h.c.changes
	if slices.Contains(at.Voters, g.Join) {
		return q.settle(ctx, s, catalog.StepJoined)
	}
	if !slices.Contains(at.Nonvoters, g.Join) {
		return q.reconfigure(ctx, s, func(ctx context.Context) error { return q.group.AddNonvoter(ctx, g.Join) })
	}
	if err := q.catchUp(ctx, s, g); err != nil {
		return err
	}
	all := append(slices.Clone(at.Voters), g.Join)
	if there := q.there(ctx, all); len(there) < len(all)/2+1 {
		return m.waits(s, "node %q cannot get its vote: of the members %q a majority must be there, and only %q are", g.Join, all, there)
	}
	m.reports(s, Progress{Phase: PhaseJoin, Detail: fmt.Sprintf("node %q gets its vote", g.Join)})
	if err := q.reconfigure(ctx, s, func(ctx context.Context) error { return q.group.AddVoter(ctx, g.Join) }); err != nil {
		return err
	}
	return q.settle(ctx, s, catalog.StepJoined)
}

// catchUp waits until the joining member has what was committed when it was asked for,
// and nearly what is committed now. One that has failed, or makes no progress for
// joinPatience, makes it give the change up.
func (q *hosted) catchUp(ctx context.Context, s *changeState, g *catalog.MemberChange) error {
	m := q.h.c.changes
	target := q.group.Stats().CommitIndex
	begun := time.Now()
	answered := false // by the member, the last time that it was asked
	for {
		applied, err := q.joining(ctx, g)
		if err == nil && !answered {
			// It may have opened after raft's calls were refused, which repeats none.
			q.group.Push()
		}
		answered = err == nil
		if err == nil && applied > s.applied {
			s.applied, s.moved, begun = applied, time.Now(), time.Now()
		}
		commit := q.group.Stats().CommitIndex
		if err == nil && applied >= target && applied+maxJoinLag >= commit {
			return nil
		}
		if stuck := time.Since(s.moved) > joinPatience; stuck || errors.Is(err, errMemberFailed) {
			q.h.c.log.Warn("a member cannot join: the change is taken back", "queue", q.uid.String(), "member", string(g.Join), "error", err)
			return errors.Join(err, q.giveUp(ctx, s))
		}
		switch {
		case err != nil:
			err = m.waits(s, "node %q has not opened its member yet: %w", g.Join, err)
		default:
			m.reports(s, Progress{
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
		if q.led.Load() == nil {
			return fmt.Errorf("%w: queue %s: leadership was lost", traffic.ErrUnavailable, q.uid)
		}
		if r, ok := q.h.c.views.View().QueueByUID(q.uid); !ok || r.Change == nil || r.Change.ID != s.id || r.Change.Cancelled {
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
func (q *hosted) joining(ctx context.Context, g *catalog.MemberChange) (applied uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	r, err := q.h.c.leaders.StatusAt(ctx, g.Join, q.uid)
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
func (q *hosted) giveUp(ctx context.Context, s *changeState) error {
	_, err := q.h.c.ProposeCatalog(ctx, &catalog.CancelMemberChange{UID: q.uid, Change: s.id})
	return err
}

// there returns those of the nodes whose members run.
func (q *hosted) there(ctx context.Context, nodes []id.NodeID) []id.NodeID {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	return peer.Each(nodes, func(n id.NodeID) bool {
		r, err := q.h.c.leaders.StatusAt(ctx, n, q.uid)
		return err == nil && r.GetGroup().GetFailed() == ""
	})
}

// reconfigure changes the group's configuration, after the catalog has said that the
// change goes on: this node's view may be of a change that is long over.
func (q *hosted) reconfigure(ctx context.Context, s *changeState, change func(context.Context) error) error {
	if err := q.settle(ctx, s, catalog.StepNone); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	err := change(ctx)
	q.h.c.liveness.Changed(q.uid.Group())
	if err != nil {
		return q.h.c.changes.waits(s, "changing the group's configuration: %w", err)
	}
	return nil
}

// settle tells the catalog of a step.
func (q *hosted) settle(ctx context.Context, s *changeState, step catalog.MemberStep) error {
	_, err := q.h.c.ProposeCatalog(ctx, &catalog.SettleMemberChange{UID: q.uid, Change: s.id, Step: step})
	var refused *catalog.Error
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errChangeOver, err)
	}
	if err != nil {
		return q.h.c.changes.waits(s, "the catalog does not answer: %w", err)
	}
	return nil
}
