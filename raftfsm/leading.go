package raftfsm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// leading is whether, and in which term, this member leads by its Lead command.
type leading struct {
	mu   sync.Mutex    // held while the Effector is called, so that no Act follows Leading(false)
	term atomic.Uint64 // changed under mu; 0: does not lead
}

// watch wakes those who wait for a change of the leader, the term, Leading, Stalled or the
// committed configuration.
type watch struct {
	onChange func() // Config.OnChange
	mu       sync.Mutex
	changed  chan struct{}
}

// announce wakes all that wait for a change, then calls onChange without the lock.
func (w *watch) announce() {
	w.mu.Lock()
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	if w.onChange != nil {
		w.onChange()
	}
}

// Changed returns a channel that is closed at the next change of the leader, the term, Leading,
// Stalled or the committed configuration.
func (g *Group[R, E]) Changed() <-chan struct{} {
	g.watch.mu.Lock()
	defer g.watch.mu.Unlock()
	return g.watch.changed
}

// Leader returns the leader that this member knows, "" if none, and its term.
func (g *Group[R, E]) Leader() (id.NodeID, uint64) {
	r := g.raft.Load()
	term := r.CurrentTerm()
	if g.Failed() != nil {
		return "", term
	}
	_, leader := r.LeaderWithID()
	return id.NodeID(leader), term
}

// Leading reports whether this member leads by its own Lead command.
func (g *Group[R, E]) Leading() bool { return g.leading.term.Load() != 0 }

// begin starts acting on effects when this member's Lead command of the term is applied
// and it still leads. If it loses the leadership just after, the next step ends it.
func (g *Group[R, E]) begin(term uint64) {
	// All that earlier leaders have stamped is applied by now.
	g.mu.Lock()
	latest := g.machine.Now()
	g.mu.Unlock()
	g.stamps.resume(latest, g.c.Clock())
	l := &g.leading
	l.mu.Lock()
	began := leaderTerm(g.raft.Load()) == term && !g.isStopping()
	if began {
		l.term.Store(term)
		if g.c.Effector != nil {
			g.c.Effector.Leading(true, term)
		}
	}
	l.mu.Unlock()
	if began {
		g.watch.announce()
	}
}

// cease stops acting on effects, unless this member leads in the term now.
func (g *Group[R, E]) cease(now uint64) {
	l := &g.leading
	l.mu.Lock()
	term := l.term.Load()
	ceased := term != 0 && term != now
	if ceased {
		l.term.Store(0)
		if g.c.Effector != nil {
			g.c.Effector.Leading(false, term)
		}
	}
	l.mu.Unlock()
	if ceased {
		g.watch.announce()
	}
}

// act hands effects of an entry of the given term on, if this member leads in that term.
func (g *Group[R, E]) act(index, term uint64, e E) {
	if g.c.Effector == nil {
		return
	}
	l := &g.leading
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.term.Load(); t != 0 && t == term {
		g.c.Effector.Act(index, e)
	}
}

// isStopping reports whether Close was called or the group has failed.
func (g *Group[R, E]) isStopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

// TransferLeadership transfers leadership to a member, or if to is "" to one that has caught up and
// whose node does not refuse, as one that drains does. No entries are proposed meanwhile: waiting
// commands end with a *NotLeaderError that names the new leader, or continue if the transfer fails.
func (g *Group[R, E]) TransferLeadership(ctx context.Context, to id.NodeID) error {
	if g.isStopping() {
		return g.stopped()
	}
	r := g.raft.Load()
	if r.State() != raft.Leader {
		return g.notLeader()
	}
	if err := g.checkTarget(to); err != nil {
		return err
	}
	if g.c.Driven {
		return g.handOver(ctx, r, to)
	}
	p := &g.proposer
	p.mu.Lock()
	p.paused++
	p.wary = true
	p.mu.Unlock()
	var future raft.Future
	if to == "" {
		future = r.LeadershipTransfer()
	} else {
		future = r.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(to))
	}
	result := make(chan error, 1)
	go func() {
		err := future.Error()
		p.mu.Lock()
		p.paused--
		p.mu.Unlock()
		g.awaitDoubtful()
		p.signal()
		result <- err
	}()
	select {
	case err := <-result:
		if err != nil {
			return fmt.Errorf("raftfsm: group %s: transfer leadership to %q: %w", g.c.Group, to, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("raftfsm: group %s: transfer leadership to %q: %w", g.c.Group, to, ctx.Err())
	}
}

// checkTarget refuses a target that is no voter before raft tries it, which stops proposals meanwhile.
func (g *Group[R, E]) checkTarget(to id.NodeID) error {
	members, err := g.Members()
	if err != nil {
		return err
	}
	others := 0
	for _, m := range members {
		if m == g.c.Node {
			continue
		}
		if m == to {
			return nil
		}
		others++
	}
	if to == "" && others > 0 {
		return nil
	}
	return fmt.Errorf("raftfsm: group %s: cannot transfer leadership from %q to %q: voters are %v", g.c.Group, g.c.Node, to, members)
}
