package liveness

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Nobody bootstraps an election: the managers find groups without leaders and elect.
func TestElectsAfterStart(t *testing.T) {
	t.Parallel()
	ns := startNodes(t, false)
	ns.open(20)
	ns.led(20, ns.all...)
	for g := range 20 {
		ns.propose(firstGroup+id.GroupID(g), ns.all...)
	}
}

// The connection of a killed process is reset, and its groups have leaders at once.
func TestNodeKilled(t *testing.T) {
	t.Parallel()
	ns := startNodes(t, false)
	ns.open(1)
	ns.led(1, ns.all...)
	dead := leader(firstGroup, ns.all...)
	begin := time.Now()
	go dead.kill()
	rest := ns.others(dead)
	until(t, "another node leads", func() bool { return leader(firstGroup, rest...) != nil })
	t.Logf("a leader %v after the kill", time.Since(begin))
	ns.propose(firstGroup, rest...)
}

// A frozen node keeps its sockets; a node that is cut off one way, too. The others elect,
// and the leader that is cut off gives up. When it is back, it follows.
func TestNodeCutOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		says, hears bool
	}{{"frozen", true, true}, {"cannot speak", true, false}, {"cannot hear", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := startNodes(t, true)
			ns.open(3)
			ns.led(3, ns.all...)
			old := leader(firstGroup, ns.all...)
			rest := ns.others(old)
			begin := time.Now()
			ns.hold(old, c.says, c.hears, true)
			until(t, "another node leads", func() bool { return leader(firstGroup, rest...) != nil })
			t.Logf("a leader %v after", time.Since(begin))
			until(t, "the old leader gives up", func() bool { return old.group(firstGroup).State() == raft.Follower })
			t.Logf("the old one gave up %v after", time.Since(begin))
			for g := range 3 {
				ns.propose(firstGroup+id.GroupID(g), rest...)
			}
			ns.hold(old, c.says, c.hears, false)
			ns.led(3, ns.all...)
			equal(t, ns, 3)
		})
	}
}

// The leader is lost that has sent the configuration without a member to that member alone. All others refuse to be
// elected without it, so it is elected, and leads until they have the configuration.
func TestLeavingMemberElected(t *testing.T) {
	t.Parallel()
	const tries = 5
	for range tries {
		if leavingMemberElected(t) {
			return
		}
	}
	t.Errorf("in %d tries the configuration came to the others, and not to the member that leaves", tries)
}

// leavingMemberElected returns false if the configuration did not come to the member that leaves: raft sends it once, and
// no more when it stops to replicate to that member.
func leavingMemberElected(t *testing.T) bool {
	t.Helper()
	ns := startSome(t, 4, true)
	ns.open(1)
	ns.led(1, ns.all...)
	old := leader(firstGroup, ns.all...)
	rest := ns.others(old)
	leaves := rest[0]
	rest = rest[1:]
	at, err := old.group(firstGroup).Configuration()
	if err != nil || !at.Committed() {
		t.Fatal(at, err)
	}
	for _, n := range rest {
		ns.relays[[2]id.NodeID{old.id, n.id}].hold(toward, true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	removed := make(chan error, 1)
	go func() { removed <- old.group(firstGroup).RemoveServer(ctx, leaves.id, at.Index) }()
	knows := false
	until(t, "it knows that it leaves, or all others do", func() bool {
		voters, err := leaves.group(firstGroup).Members()
		knows = err == nil && !slices.Contains(voters, leaves.id)
		return knows || len(removed) > 0
	})
	if !knows {
		return false
	}
	old.kill()
	if err := <-removed; err == nil {
		t.Fatal("the others have the configuration")
	}
	until(t, "another member leads", func() bool { return leader(firstGroup, rest...) != nil })
	ns.propose(firstGroup, rest...)
	if voters, err := leader(firstGroup, rest...).group(firstGroup).Members(); err != nil || slices.Contains(voters, leaves.id) {
		t.Errorf("voters %q, %v", voters, err)
	}
	return true
}

// equal waits until all members have applied the same.
func equal(t testing.TB, ns *nodes, groups int) {
	t.Helper()
	for g := range groups {
		until(t, "all members are at the same index", func() bool {
			first := ns.all[0].group(firstGroup + id.GroupID(g)).Stats()
			for _, n := range ns.all {
				s := n.group(firstGroup + id.GroupID(g)).Stats()
				if s.CommitIndex != first.CommitIndex || s.LastIndex != first.LastIndex || s.CommitIndex != s.LastIndex {
					return false
				}
			}
			return true
		})
	}
}

// The leader steps down while its node lives: heartbeats notify the others.
func TestLeaderStepsDownAlone(t *testing.T) {
	t.Parallel()
	ns := startNodes(t, false)
	ns.open(5)
	ns.led(5, ns.all...)
	old := leader(firstGroup, ns.all...)
	_, term := old.group(firstGroup).Leader()
	if err := old.group(firstGroup).StepDown(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	until(t, "there is a leader in a newer term", func() bool {
		l := leader(firstGroup, ns.all...)
		if l == nil {
			return false
		}
		_, now := l.group(firstGroup).Leader()
		return now > term // another member may stand in the term after it, the old leader in a later one
	})
	ns.led(5, ns.all...)
	ns.propose(firstGroup, ns.all...)
}

// A leader whose disk hangs says so, and loses its groups although it lives.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	ns := startNodes(t, false)
	ns.open(3)
	ns.led(3, ns.all...)
	old := leader(firstGroup, ns.all...)
	begin := time.Now()
	said := old.said.Load()
	old.disk.freeze(true)
	go func() { _, _ = old.group(firstGroup).Propose(t.Context(), command()) }()
	rest := ns.others(old)
	until(t, "another node leads", func() bool { return leader(firstGroup, rest...) != nil })
	t.Logf("a leader %v after", time.Since(begin))
	until(t, "its peers are told at once", func() bool { return old.said.Load() != said })
	for g := range 3 {
		ns.propose(firstGroup+id.GroupID(g), rest...)
	}
	old.disk.freeze(false)
	ns.led(3, ns.all...)
	equal(t, ns, 3)
}

// Many groups at once: every one gets a leader, and the survivors never stand against
// each other.
func TestManyGroupsAtOnce(t *testing.T) {
	groups := 300
	if testing.Short() {
		groups = 60
	}
	ns := startNodes(t, false)
	ns.open(groups)
	t.Logf("%d first elections in %v", groups, ns.led(groups, ns.all...))
	dead := ns.all[0]
	led := 0
	for g := range groups {
		if leader(firstGroup+id.GroupID(g), ns.all...) == dead {
			led++
		}
	}
	rest := ns.others(dead)
	before := rest[0].manager.Stats().Campaigns + rest[1].manager.Stats().Campaigns
	go dead.kill()
	took := ns.led(groups, rest...)
	after := rest[0].manager.Stats().Campaigns + rest[1].manager.Stats().Campaigns
	t.Logf("%d of %d groups elected another leader in %v, %d campaigns", led, groups, took, after-before)
	if led == 0 {
		t.Error("the dead node led no group: the lot does not spread them")
	}
}

// Two survivors that both campaign lose both, and would wait for ever: they are stuck
// candidates, and helped out.
func TestStuckCandidates(t *testing.T) {
	ns := startNodes(t, false)
	ns.open(1)
	ns.led(1, ns.all...)
	dead := leader(firstGroup, ns.all...)
	rest := ns.others(dead)
	for _, n := range ns.all {
		n.stop() // no manager acts
		<-n.ended
	}
	go dead.kill()
	until(t, "the links are down", func() bool {
		for _, n := range rest {
			if _, up := n.mux.Connected(dead.id); up {
				return false
			}
		}
		return true
	})
	// One that stood against the leader in its term stays a candidate until a manager helps it,
	// although it knows the leader: it could not stand again.
	for _, n := range rest {
		if err := n.group(firstGroup).StepDown(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	// Each is made to stand, and loses, for its vote was given away.
	for _, n := range rest {
		if err := n.group(firstGroup).Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "one of them is a candidate, or they are done", func() bool {
		return rest[0].group(firstGroup).State() != raft.Follower || rest[1].group(firstGroup).State() != raft.Follower
	})
	t.Logf("%v and %v", rest[0].group(firstGroup).State(), rest[1].group(firstGroup).State())
	for _, n := range rest {
		n.running.Go(func() { n.manager.Run(t.Context()) })
		n.manager.Changed(firstGroup)
	}
	ns.led(1, rest...)
	ns.propose(firstGroup, rest...)
}

// A node that starts again learns who leads without an election.
func TestNodeComesBack(t *testing.T) {
	t.Parallel()
	const groups, tries = 5, 5
	ns := startNodes(t, false)
	ns.open(groups)
	ns.led(groups, ns.all...)
	for try := 1; ; try++ {
		elections := ns.comesBack(groups)
		if elections == 0 {
			return
		}
		t.Logf("try %d: %d elections", try, elections) // a busy machine may have some of its own
		if try == tries {
			t.Fatal("its return costs elections each time")
		}
	}
}

// comesBack kills the third node and starts it again, and returns in how many groups that cost an election.
func (ns *nodes) comesBack(groups int) (elections int) {
	ns.t.Helper()
	down := ns.all[2]
	down.kill()
	rest := ns.others(down)
	ns.led(groups, rest...)
	for g := range groups {
		ns.propose(firstGroup+id.GroupID(g), rest...)
	}
	terms := make([]uint64, groups)
	for g := range terms {
		_, terms[g] = rest[0].group(firstGroup + id.GroupID(g)).Leader()
	}
	again := startNode(ns.t, down.id, down.epoch+1, down.dir, down.stores)
	ns.all[2] = again
	for _, n := range rest {
		n.mux.SetPeer(again.id, again.address)
		again.mux.SetPeer(n.id, n.address)
	}
	for g := range groups {
		again.open(firstGroup + id.GroupID(g))
	}
	ns.led(groups, ns.all...)
	equal(ns.t, ns, groups)
	for g := range terms {
		if _, term := again.group(firstGroup + id.GroupID(g)).Leader(); term != terms[g] {
			elections++
		}
	}
	return elections
}

// A member that opens when all is quiet is brought up by the leader, which asks for it.
func TestMemberOpensLate(t *testing.T) {
	t.Parallel()
	ns := startNodes(t, false)
	late := ns.all[2]
	for _, n := range ns.others(late) {
		n.open(firstGroup, "n1", "n2", "n3")
	}
	ns.led(1, ns.others(late)...)
	ns.propose(firstGroup, ns.others(late)...)
	late.open(firstGroup)
	ns.led(1, ns.all...)
	equal(t, ns, 1)
}

// At rest groups send nothing, and who watches them looks seldom.
func TestIdleGroupsAreSilent(t *testing.T) {
	t.Parallel()
	ns := startNodes(t, false)
	ns.open(50)
	ns.led(50, ns.all...)
	equal(t, ns, 50)
	sent := func() (n int64) {
		for _, o := range ns.all {
			n += o.appends.Load() + o.votes.Load()
		}
		return n
	}
	last, since := sent(), time.Now()
	until(t, "nothing is sent for a second", func() bool {
		if n := sent(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > time.Second
	})
	for _, n := range ns.all {
		until(t, "its manager rests", func() bool {
			n.manager.mu.Lock()
			defer n.manager.mu.Unlock()
			return n.manager.resting
		})
	}
}
