package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// newDriven is three members without timers; the first leads.
func newDriven(t *testing.T, change func(*member, *Config[reply, string])) *testCluster {
	t.Helper()
	c := newCluster(t, 3, func(m *member, config *Config[reply, string]) {
		config.Driven = true
		if change != nil {
			change(m, config)
		}
	})
	if err := c.members[0].group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.leader()
	return c
}

// drive is what a host does when an election fails: candidates that are stuck step down,
// and the next member stands, for one whose log is shorter never wins.
func (c *testCluster) drive(ctx context.Context) {
	tick := time.NewTicker(testTimeout)
	defer tick.Stop()
	for next := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		led := false
		for _, m := range c.members {
			led = led || m.group.State() == raft.Leader
		}
		if led {
			continue
		}
		for _, m := range c.members {
			_ = m.group.StepDown(ctx, 0)
		}
		_ = c.members[next%len(c.members)].group.Campaign(ctx)
		next++
	}
}

// Followers apply what is committed although no timer notifies them.
func TestDrivenFollowersLearnOfCommits(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("one", "body")
	c.propose("two")
	c.equal()
	until(t, "nothing is left to report", func() bool {
		p := &c.leader().group.pusher
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.armed
	})
}

// A member that has committed an entry and not applied it has not applied all. One whose log ends with a barrier, which no
// machine gets, has.
func TestAppliedAll(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("one", "body")
	f := c.follower()
	committed := func() bool {
		s := f.group.Stats()
		return s.LastIndex == c.leader().group.Stats().LastIndex && s.CommitIndex == s.LastIndex
	}
	all := func(what string) {
		t.Helper()
		until(t, what, func() bool { return committed() && f.group.AppliedAll() })
	}
	all("the follower has applied all")
	reading, end := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release()
	go f.group.Read(func() {
		close(reading)
		<-end
	})
	<-reading
	c.propose("two")
	until(t, "the follower has committed what it cannot apply", committed)
	if f.group.AppliedAll() {
		t.Error("an entry counts as applied that is not")
	}
	release()
	all("the follower has applied that too")
	if err := c.leader().group.raft.Load().Barrier(0).Error(); err != nil {
		t.Fatal(err)
	}
	c.leader().group.Push()
	all("the follower has applied all, and a barrier follows")
	if s := f.group.Stats(); s.AppliedIndex >= s.LastIndex {
		t.Errorf("entry %d counts as applied, and the log ends with the barrier %d", s.AppliedIndex, s.LastIndex)
	}
}

// Followers are notified as soon as Config.PushAfter says.
func TestPushAfter(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Millisecond, pushDelay} {
		synctest.Test(t, func(t *testing.T) {
			all := newLogCluster(t, 3, func(c *Config[reply, string]) { c.Driven, c.PushAfter = true, after })
			if err := all[0].group.Campaign(t.Context()); err != nil {
				t.Fatal(err)
			}
			l := leaderOf(t, all, nil)
			comes(t, "before", l.submit("a"))
			time.Sleep(time.Minute)
			comes(t, "it", l.submit("b"))
			begin := time.Now()
			for _, m := range all {
				for m.group.Stats().AppliedIndex < l.group.Stats().AppliedIndex {
					time.Sleep(after / 10)
				}
			}
			// The first look after the burst finds that it continues.
			if took := time.Since(begin); took < after || took > 3*after {
				t.Errorf("followers notified after %v applied it after %v", after, took)
			}
		})
	}
}

// With Config.PushAtOnce the follower whose answer has committed an entry applies it without any wait, and the other one
// soon after. A burst keeps nobody waiting, and behind it the leader comes to rest.
func TestPushAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const soon = pushDelay / 2
		all := newLogCluster(t, 3, func(c *Config[reply, string]) { c.Driven, c.PushAtOnce = true, true })
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		time.Sleep(time.Minute)
		applied := func(when string, least int) {
			t.Helper()
			synctest.Wait()
			n, want := 0, l.group.Stats().AppliedIndex
			for _, m := range all {
				if m.group.Stats().AppliedIndex >= want {
					n++
				}
			}
			if n < least {
				t.Errorf("%s: %d of %d members have applied entry %d, want %d", when, n, len(all), want, least)
			}
		}
		for i := range 10 {
			comes(t, "it", l.submit(fmt.Sprint(i)))
			applied("at once", 2)
			time.Sleep(soon)
			applied("soon after", 3)
		}
		for i := range 20 {
			comes(t, "it", l.submit(fmt.Sprint("burst ", i)))
		}
		time.Sleep(soon)
		applied("after a burst", 3)
		time.Sleep(time.Minute)
		p := &l.group.pusher
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.armed {
			t.Error("the leader does not come to rest")
		}
	})
}

// With Config.PushAtOnce an entry that is applied while the leader waits to ask a follower again is reported at once
// too.
func TestPushAtOnceBesideLateFollower(t *testing.T) {
	t.Parallel()
	var is atomic.Bool
	late := map[raft.ServerID]*atomic.Bool{"n3": &is}
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, func(c *Config[reply, string]) {
			c.Driven, c.PushAtOnce, c.PushAfter = true, true, time.Second
			inner, ok := c.Transport.(*heartbeats)
			if !ok {
				t.Fatalf("the transport is a %T", c.Transport)
			}
			c.Transport = refusing{inner, late}
		})
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		is.Store(true)
		for i := range 3 {
			comes(t, "it", l.submit(fmt.Sprint(i)))
			synctest.Wait()
			p := &l.group.pusher
			p.mu.Lock()
			armed := p.armed
			p.mu.Unlock()
			if !armed {
				t.Error("the leader does not mean to ask the late follower again")
			}
			// The late follower stores what raft sends it, so its answer may commit the entry before the other one has it:
			// that one is asked again soon.
			time.Sleep(10 * pushRetry)
			synctest.Wait()
			if have, want := all[1].group.Stats().AppliedIndex, l.group.Stats().AppliedIndex; have < want {
				t.Errorf("entry %d: a follower has applied %d of %d", i, have, want)
			}
			time.Sleep(time.Minute) // the wait is long by now
		}
		is.Store(false)
	})
}

// Raft does not repeat a failed call before its commit timer: the group makes it.
func TestDrivenFollowerCatchesUp(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("before")
	f := c.follower()
	c.disconnect(f)
	for range 10 {
		c.propose("without it")
	}
	for _, o := range c.members {
		if o != f {
			f.transport.Connect(o.transport.LocalAddr(), o.transport.InmemTransport)
			o.transport.Connect(f.transport.LocalAddr(), f.transport.InmemTransport)
		}
	}
	c.leader().group.Push()
	c.equal()
}

// A candidate that lost stays one, and is not helped by a second order to campaign:
// it has to step down first.
func TestDrivenStuckCandidate(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("before")
	c.equal()
	old := c.leader()
	var f *member
	for _, m := range c.members {
		if m != old {
			f = m
			c.disconnect(m)
		}
	}
	if err := f.group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Raft calls the others side by side, after the new term is known: a call that is late would
	// still find them when they are connected.
	until(t, "it has asked both others in vain", func() bool { return f.transport.asked.Load() == 2 })
	if s := f.group.State(); s != raft.Candidate {
		t.Fatalf("with nobody's vote it is %v", s)
	}
	for _, m := range c.members {
		c.connect(m)
	}
	if err := f.group.Campaign(t.Context()); err == nil {
		t.Error("a candidate stands again")
	}
	if err := f.group.inject(t.Context(), &raft.TimeoutNowRequest{RPCHeader: f.group.header()}); err != nil {
		t.Fatal(err)
	}
	if _, term := f.group.Leader(); f.group.State() != raft.Candidate || term != 3 {
		t.Errorf("raft has changed: ordered to campaign again, a candidate is %v in term %d", f.group.State(), term)
	}
	if err := f.group.StepDown(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if s := f.group.State(); s != raft.Follower {
		t.Fatalf("after stepping down it is %v", s)
	}
	if err := f.group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it leads", f.group.Leading)
	until(t, "the old leader follows", func() bool { return old.group.State() == raft.Follower })
	c.propose("after")
	c.equal()
}

// Who may not stand is refused in words.
func TestDrivenRefusals(t *testing.T) {
	t.Parallel()
	c := newDriven(t, makeFaulty)
	c.propose("x")
	leader, f := c.leader(), c.follower()
	var not *NotLeaderError
	if err := leader.group.Campaign(t.Context()); err == nil || leader.group.State() != raft.Leader {
		t.Errorf("a leader campaigns: %v", err)
	}
	if err := f.group.TransferLeadership(t.Context(), ""); !errors.As(err, &not) {
		t.Errorf("a follower transfers: %v", err)
	}
	if err := leader.group.TransferLeadership(t.Context(), "nobody"); err == nil {
		t.Error("leadership went to nobody")
	}
	if err := f.group.StepDown(t.Context(), 0); err != nil {
		t.Errorf("a follower steps down: %v", err)
	}
	if err := leader.group.StepDown(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	if _, term := leader.group.Leader(); leader.group.State() != raft.Follower || term != 9 {
		t.Errorf("it is %v in term %d", leader.group.State(), term)
	}
	if _, err := leader.group.Propose(t.Context(), command("y")); !errors.As(err, &not) {
		t.Errorf("it takes commands: %v", err)
	}
}

// Leadership goes where it is asked to, and stays if the target is gone: commands then
// go on at once.
func TestDrivenTransfer(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	c.propose("x")
	for _, to := range []id.NodeID{"n2", "n3", ""} {
		old := c.leader()
		if err := old.group.TransferLeadership(t.Context(), to); err != nil {
			t.Fatalf("to %q: %v", to, err)
		}
		until(t, "another member leads", func() bool { l := c.leader(); return l != old && (to == "" || l.node == to) })
		c.propose("after")
	}
	old, gone := c.leader(), c.follower()
	c.disconnect(gone)
	if err := old.group.TransferLeadership(t.Context(), gone.node); err == nil {
		t.Error("leadership went to a member that is gone")
	}
	if _, err := old.group.Propose(t.Context(), command("go on")); err != nil {
		t.Errorf("after a failed transfer: %v", err)
	}
}

// A member that voted before it had a configuration takes one all the same: the leader
// that it voted for may have died first.
func TestBootstrapAfterVote(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(m *member, config *Config[reply, string]) {
		config.Driven = true
		m.unconfigured = m.node == "n2"
	})
	n1, n2 := c.members[0], c.members[1]
	vote := &raft.RequestVoteRequest{
		RPCHeader: n1.group.header(), Term: 2, LastLogIndex: 9, LastLogTerm: 2, LeadershipTransfer: true,
	}
	if err := n2.group.inject(t.Context(), vote); err != nil {
		t.Fatal(err)
	}
	if _, term := n2.group.Leader(); term != 2 {
		t.Fatalf("term is %d", term)
	}
	for range 2 {
		if err := n2.group.Bootstrap([]id.NodeID{"n1", "n2"}); err != nil {
			t.Fatal(err)
		}
	}
	if voters, err := n2.group.Members(); err != nil || len(voters) != 2 {
		t.Fatalf("voters are %v, %v", voters, err)
	}
	if n := n2.group.Stats().LastIndex; n != 1 {
		t.Errorf("%d entries", n)
	}
	if err := n2.group.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it leads", n2.group.Leading)
	c.propose("x")
	c.equal()
}

// An entry that its leader's disk held up is replicated although the call that carried it
// fails: raft would repeat that call only at its commit timer, minutes later.
func TestDrivenSlowEntryIsReplicated(t *testing.T) {
	t.Parallel()
	c := newDriven(t, makeFaulty)
	c.propose("before")
	c.equal()
	leader := c.leader()
	quiet := func() bool {
		p := &leader.group.pusher
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.armed || p.wait > pushDelay
	}
	until(t, "nothing is left to report", quiet)
	disk := leader.faults(t)
	disk.hang.Lock()
	answered := make(chan error, 1)
	leader.group.Submit(command("slow"), func(_ reply, err error) { answered <- err })
	until(t, "the entry is in raft's hands", leader.group.proposer.underway)
	time.Sleep(2 * pushDelay)
	until(t, "rounds have found nothing to report", quiet)
	for _, m := range c.members {
		if m != leader {
			c.disconnect(m)
		}
	}
	disk.hang.Unlock()
	until(t, "the entry is in the log", func() bool { return leader.group.Stats().LastIndex > leader.group.Stats().CommitIndex })
	time.Sleep(5 * pushDelay) // raft's call has failed by then
	for _, m := range c.members {
		if m != leader {
			c.connect(m)
		}
	}
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Error("the entry is not committed")
	}
}

// absent is a transport whose peers say that they have no such member while it is set.
type absent struct {
	*heartbeats
	is *atomic.Bool
}

// refusal is a peer's word that it did not do what it was asked for.
type refusal struct{ why string }

func (r refusal) Error() string { return r.why }
func (refusal) Refused() bool   { return true }

func (a absent) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if a.is.Load() {
		return refusal{"no such member"}
	}
	return a.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

// refusing is absent for single peers.
type refusing struct {
	*heartbeats

	late map[raft.ServerID]*atomic.Bool
}

func (r refusing) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if is := r.late[to]; is != nil && is.Load() {
		return refusal{}
	}
	return r.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

// A leader keeps asking nodes that have no member yet, ever less often, and at once when something happens.
func TestDrivenAbsentFollower(t *testing.T) {
	t.Parallel()
	var is atomic.Bool
	c := newDriven(t, func(m *member, config *Config[reply, string]) { config.Transport = absent{m.transport, &is} })
	c.propose("x")
	c.equal()
	leader := c.leader().group
	is.Store(true)
	leader.Push()
	waits := func() bool {
		leader.pusher.mu.Lock()
		defer leader.pusher.mu.Unlock()
		return leader.pusher.armed && leader.pusher.due > pushMax
	}
	until(t, "it waits for long", waits)
	is.Store(false)
	if leader.Push(); waits() {
		t.Error("it goes on waiting")
	}
	until(t, "nothing is left to report", func() bool {
		leader.pusher.mu.Lock()
		defer leader.pusher.mu.Unlock()
		return !leader.pusher.armed
	})
}

// mute is a transport on which one peer does not answer what it is sent.
type mute struct {
	*heartbeats

	peer raft.ServerID
	end  <-chan struct{}
}

func (m mute) AppendEntriesNow(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if to == m.peer {
		<-m.end
		return errShut
	}
	return m.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

// A follower that does not answer, because its disk hangs, does not keep the leader from
// bringing the other one up, on which the next commit depends.
func TestDrivenMuteFollower(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	c := newDriven(t, func(m *member, config *Config[reply, string]) { config.Transport = mute{m.transport, "n2", end} })
	t.Cleanup(func() { close(end) }) // before the members are closed
	c.propose("before")
	leader, other := c.members[0], c.members[2]
	if c.leader() != leader {
		t.Fatal("n1 does not lead")
	}
	c.disconnect(c.members[1])
	c.disconnect(other)
	answered := make(chan error, 1)
	leader.group.Submit(command("x"), func(_ reply, err error) { answered <- err })
	until(t, "the entry is in the log", func() bool { return leader.group.Stats().LastIndex > leader.group.Stats().CommitIndex })
	time.Sleep(5 * pushDelay) // raft's calls have failed by then
	leader.transport.Connect(other.transport.LocalAddr(), other.transport.InmemTransport)
	other.transport.Connect(leader.transport.LocalAddr(), leader.transport.InmemTransport)
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline / 3):
		t.Error("the entry is not committed")
	}
}
