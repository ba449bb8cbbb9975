package raftfsm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

const (
	// pushDelay is how long after the last entry of a burst followers are notified of its
	// commit, if Config.PushAfter does not say so. Raft's own commit timer would do it for every
	// group, busy or not. Rounds that follow sooner do not count as ones without progress.
	pushDelay = 30 * time.Millisecond
	// pushRetry is half the first wait before a follower is asked again that had not stored an
	// entry yet when Config.PushAtOnce had it notified.
	pushRetry = 500 * time.Microsecond
	// pushMax is the longest wait between attempts to bring a follower up.
	pushMax = time.Second
	// absentMax is that wait while the only followers behind are those whose node reports that it has no such member:
	// it may open one at any time, and nobody would report that.
	absentMax = 10 * time.Second
	// nudgeAfter is the number of rounds without progress after which raft is given a
	// barrier to replicate: after a failed call it waits for its commit timer otherwise.
	nudgeAfter = 2
	// nudgeTimeout bounds the wait for a place in raft's inbox.
	nudgeTimeout = time.Second
	// maxNudges is how many such barriers are proposed before anything else is committed. They stay in the log, and a
	// leader whose followers store nothing would fill it. After that many, the next barrier follows a second later,
	// each further one after twice as long, up to nudgeRest, and one when something happens.
	maxNudges = 8
	nudgeRest = time.Minute
	doublings = 6 // until that is reached
	// stepDownTimeout bounds the wait for raft to take a newer term.
	stepDownTimeout = 5 * time.Second
)

// pusher lets a leader of a driven group notify its followers, after a burst of entries, of what is committed and who
// leads. It continues until all reachable followers are up to date. There is at most one round at a time, and none at
// rest.
type pusher struct {
	moved atomic.Int64 // when something was applied, nanoseconds since the guard's base

	mu     sync.Mutex    // guards what follows
	armed  bool          // a round is due or runs
	again  bool          // something happened since the round began
	atOnce bool          // something was applied since the round began, and the next one does not wait
	timer  *time.Timer   // begins the round that is due
	due    time.Duration // after which it does so
	// unanswered are followers that were notified and have not answered; true: no round waits for
	// that any more.
	unanswered map[id.NodeID]bool

	// The rest belongs to the round.
	last, commit uint64 // as the round before found them
	wait         time.Duration
	stuck        int       // rounds without progress
	added, done  uint64    // barriers of rounds that were not seen in the log, and not as committed, yet: they are no progress
	nudges       int       // barriers since something else was committed
	nudged       time.Time // when the last one was given
}

// moved records that entries were applied. used is false if they were only barriers: looking at a group does not
// count as using it.
func (g *Group[R, E]) moved(used bool) {
	if !g.c.Driven {
		return
	}
	if used {
		g.pusher.moved.Store(int64(time.Since(g.store.base)))
	}
	g.pushFor(g.c.PushAtOnce)
}

// Push makes a leader soon notify its followers of its leadership and of the commit index. On a
// member that does not lead, or is not driven, it does nothing.
func (g *Group[R, E]) Push() { g.pushSoon() }

// pushSoon delays the notification by PushAfter, so that a burst of entries leads to one round.
func (g *Group[R, E]) pushSoon() { g.pushFor(false) }

// pushFor arranges a round for something that has happened: after PushAfter or, with atOnce, at once
// or when the present round ends. It takes the place of one that is further away than pushMax or,
// with atOnce, of any that has not begun.
func (g *Group[R, E]) pushFor(atOnce bool) {
	if !g.c.Driven || g.isStopping() || leaderTerm(g.raft.Load()) == 0 {
		return
	}
	p := &g.pusher
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again, p.atOnce = true, p.atOnce || atOnce
	if !p.armed || (p.due > pushMax || atOnce && p.due > 0) && p.timer.Stop() {
		g.pushNext()
	}
}

// pushNext arranges the round for what has happened. The caller holds the pusher's lock.
func (g *Group[R, E]) pushNext() {
	if g.pusher.atOnce {
		g.pushIn(0)
	} else {
		g.pushIn(g.c.PushAfter)
	}
}

// pushIn is called with the pusher's lock held.
func (g *Group[R, E]) pushIn(d time.Duration) {
	p := &g.pusher
	p.armed, p.due = true, d
	p.timer = time.AfterFunc(d, func() { g.spawn(g.pushRound) })
}

// pushRound schedules another round as long as a follower has to be notified.
func (g *Group[R, E]) pushRound() {
	wait := g.push()
	p := &g.pusher
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.again && (p.atOnce || wait == 0 || wait > g.c.PushAfter):
		g.pushNext()
	case wait > 0: // a follower is asked again soon, whatever else has happened
		g.pushIn(wait)
	default:
		p.armed, p.timer = false, nil
	}
}

// push returns the time to the next round, 0 if none is needed.
func (g *Group[R, E]) push() time.Duration {
	p, r := &g.pusher, g.raft.Load()
	p.mu.Lock()
	asked, atOnce := p.again, p.atOnce
	p.again, p.atOnce = false, false
	p.mu.Unlock()
	if leaderTerm(r) == 0 {
		p.stuck, p.wait, p.added, p.done, p.nudges = 0, 0, 0, 0, 0
		return 0
	}
	if asked {
		p.wait = g.c.PushAfter
		p.nudges = min(p.nudges, maxNudges-1)
	}
	if p.progress(r.LastIndex(), r.CommitIndex()) {
		p.stuck, p.wait = 0, g.c.PushAfter
		if !atOnce {
			return p.wait // the burst continues
		}
	}
	if atOnce {
		p.wait = pushRetry
	}
	f, led := g.notifyFollowers(r)
	switch {
	case !led || f.done() && !g.proposer.underway():
		p.stuck, p.wait = 0, 0
		return 0
	case f.done(): // an entry waits for the disk: raft's call with it may fail yet
		p.stuck = -1
	}
	// A follower that takes a snapshot is behind for as long as it takes.
	lags := f.behind > int(g.out.snapshots.Load()) || !f.committed && f.reached > 0
	if p.wait >= pushDelay {
		p.stuck++
	}
	nudged := p.stuck >= nudgeAfter && lags && p.nudge()
	if nudged {
		p.stuck = 0
		r.Barrier(nudgeTimeout)
	}
	most := pushMax
	if f.committed && f.behind == 0 && f.absent > 0 && !g.proposer.underway() {
		most = absentMax
	}
	p.wait = min(2*max(p.wait, min(pushRetry, g.c.PushAfter)), most)
	if nudged {
		return g.c.PushAfter // to see soon whether that was all that was missing
	}
	return p.wait
}

// progress records how far the log is, and reports whether it has grown since the round before by more than the
// barriers of rounds.
func (p *pusher) progress(last, commit uint64) bool {
	added, committed := beyond(&p.added, last-p.last), beyond(&p.done, commit-p.commit)
	if committed {
		p.nudges = 0
	}
	p.last, p.commit = last, commit
	return added || committed
}

// beyond reports whether n is more than what is pending, and takes it off that.
func beyond(pending *uint64, n uint64) bool {
	if n > *pending {
		*pending = 0
		return true
	}
	*pending -= n
	return false
}

// nudge reports whether raft may be given a barrier now, and counts it.
func (p *pusher) nudge() bool {
	now := time.Now()
	if more := p.nudges - maxNudges; more >= 0 && now.Sub(p.nudged) < min(nudgeRest, time.Second<<min(more, doublings)) {
		return false
	}
	p.nudges++
	p.added++
	p.done++
	p.nudged = now
	return true
}

// findings are what a round found.
type findings struct {
	committed bool // the whole log is
	reached   int  // followers that answered
	behind    int  // of these, without the whole log
	absent    int  // nodes that answered that they have no such member
}

// add takes the outcome of notifying one follower.
func (f *findings) add(t pushOutcome) {
	switch t {
	case pushMatches:
		f.reached++
	case pushBehind:
		f.reached++
		f.behind++
	case pushAbsent:
		f.absent++
	case pushUnreachable:
	}
}

// done reports that those in reach have everything and know it.
func (f findings) done() bool { return f.committed && f.behind == 0 && f.absent == 0 }

// notifyFollowers sends every follower an AppendEntries without entries behind the end of the log.
// led: this member still leads.
func (g *Group[R, E]) notifyFollowers(r *raft.Raft) (f findings, led bool) {
	req, ok := g.probe(r)
	if !ok {
		return f, leaderTerm(r) != 0
	}
	voters, others, err := g.Servers()
	if err != nil {
		return f, false // raft is shut down
	}
	f.committed = req.LeaderCommitIndex == req.PrevLogEntry
	answers := make(chan pushOutcome, len(voters)+len(others))
	var asked []id.NodeID
	for _, n := range append(voters, others...) {
		if n == g.c.Node || !g.pusher.ask(n) {
			continue
		}
		asked = append(asked, n)
		g.spawn(func() {
			answer := g.notifyOne(n, *req)
			if g.pusher.answered(n) {
				answers <- answer
			} else {
				g.pushSoon() // a new round finds out what the follower has by now
			}
		})
	}
	late := time.NewTimer(pushMax)
	defer late.Stop()
	for waiting := len(asked); waiting > 0; {
		select {
		case answer := <-answers:
			waiting--
			f.add(answer)
		case <-late.C: // a follower that does not answer must not keep the others from being brought up
			waiting -= g.pusher.giveUp(asked)
		case <-g.stop:
			return f, false
		}
	}
	return f, true
}

// ask records that a follower is notified; false: it has not answered an earlier round yet.
func (p *pusher) ask(n id.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waits := p.unanswered[n]; waits {
		return false
	}
	if p.unanswered == nil {
		p.unanswered = map[id.NodeID]bool{}
	}
	p.unanswered[n] = false
	return true
}

// answered records that a follower has answered, and reports whether a round waits for that.
func (p *pusher) answered(n id.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.unanswered[n]
	delete(p.unanswered, n)
	return !late
}

// giveUp makes a round stop waiting for those of the followers that have not answered, and returns their number.
func (p *pusher) giveUp(asked []id.NodeID) (silent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range asked {
		if _, waits := p.unanswered[n]; waits {
			p.unanswered[n] = true
			silent++
		}
	}
	return silent
}

// pushOutcome is the outcome of notifying a follower.
type pushOutcome int

const (
	pushUnreachable pushOutcome = iota // its node cannot be reached, or has not answered yet
	pushAbsent                         // its node has no member of the group, or one that closes
	pushBehind                         // it has not the whole log
	pushMatches
)

// probe returns the call, false if this member does not lead or its log cannot be read.
func (g *Group[R, E]) probe(r *raft.Raft) (*raft.AppendEntriesRequest, bool) {
	term := leaderTerm(r)
	commit := r.CommitIndex()
	prevTerm, prev, err := g.Position()
	if err != nil || term == 0 || leaderTerm(r) != term {
		return nil, false
	}
	return &raft.AppendEntriesRequest{
		RPCHeader: g.header(), Term: term, Leader: []byte(g.c.Node), //nolint:staticcheck // older members read it
		PrevLogEntry: prev, PrevLogTerm: prevTerm,
		// Never above prev: what a follower has behind it may be of another leader.
		LeaderCommitIndex: min(commit, prev),
	}, true
}

// notifyOne notifies one follower. A newer term there ends this leadership.
func (g *Group[R, E]) notifyOne(n id.NodeID, req raft.AppendEntriesRequest) pushOutcome {
	var resp raft.AppendEntriesResponse
	if err := g.out.now(raft.ServerID(n), &req, &resp); err != nil {
		if isRefusal(err) {
			return pushAbsent
		}
		return pushUnreachable
	}
	if resp.Term > req.Term && leaderTerm(g.raft.Load()) == req.Term {
		ctx, cancel := context.WithTimeout(context.Background(), stepDownTimeout)
		defer cancel()
		if err := g.StepDown(ctx, resp.Term); err != nil {
			g.log.Warn("taking a newer term", "term", resp.Term, "error", err)
		}
	}
	if !resp.Success {
		return pushBehind
	}
	return pushMatches
}

// isRefusal reports whether a call's error is the answer of the node that was asked, and not a fault of the
// connection to it.
func isRefusal(err error) bool {
	var refused interface{ Refused() bool }
	return errors.As(err, &refused) && refused.Refused()
}
