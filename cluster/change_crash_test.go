package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// hold keeps a node's changer from beginning anything until it is let go.
func (n *testNode) hold(t *testing.T) (letGo func()) {
	t.Helper()
	for range membership.MaxMemberChanges {
		select {
		case n.changeSlots <- struct{}{}:
		case <-testContext(t).Done():
			t.Fatalf("node %s: changes do not end", n.cfg.Node)
		}
	}
	return func() {
		for range membership.MaxMemberChanges {
			<-n.changeSlots
		}
	}
}

// The leader stops after each step of a change, the catalog knowing of it or not: the
// next one continues from there, while confirms continue.
func TestLeaderLostWithinChange(t *testing.T) {
	t.Parallel()
	steps := []struct {
		name string
		take func(t *testing.T, a *testNode, q *replica.Member, change uint64)
	}{
		{"the change is written", func(*testing.T, *testNode, *replica.Member, uint64) {}},
		{"non-voter added", func(t *testing.T, _ *testNode, q *replica.Member, _ uint64) {
			poll(t, "d is a non-voter", func() error { return q.Group().AddNonvoter(testContext(t), "d") })
		}},
		{"voter added", func(t *testing.T, _ *testNode, q *replica.Member, _ uint64) {
			poll(t, "d votes", func() error { return q.Group().AddVoter(testContext(t), "d") })
		}},
		{"joined is written", completed(catalog.StepJoined)},
		{"the old one is out", func(t *testing.T, _ *testNode, q *replica.Member, _ uint64) {
			poll(t, "b is out", func() error {
				at, err := q.Group().Configuration()
				if err != nil {
					return err
				}
				return q.Group().RemoveServer(testContext(t), "b", at.Index)
			})
		}},
	}
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.start("d", "e")
	for last := range steps {
		if testing.Short() && last != 2 {
			t.Logf("short: left out %q", steps[last].name)
			continue
		}
		t.Run(steps[last].name, func(t *testing.T) {
			a := n.nodes["a"]
			q := a.declare(t, fmt.Sprint("q", last), 3)
			// Placed on a and those with the fewest replicas; make it a, b, c.
			for _, i := range []id.NodeID{"b", "c"} {
				if err := a.operator.AddMember(testContext(t), q, i, nil); err != nil {
					t.Fatal(err)
				}
			}
			for _, i := range []id.NodeID{"d", "e"} {
				if err := a.operator.RemoveMember(testContext(t), q, i, nil); err != nil {
					t.Fatal(err)
				}
			}
			n.has(q, "a", "b", "c")
			if err := a.leaders.Transfer(testContext(t), q, "a"); err != nil {
				t.Fatal(err)
			}
			l := n.nodes["e"].load(t, q)
			l.goesOn()
			var letGo []func()
			for i, node := range n.nodes {
				if i != "a" {
					letGo = append(letGo, node.hold(t))
				}
			}
			a.hold(t) // it stops
			r, err := a.catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: "d", Leave: "b"})
			if err != nil {
				t.Fatal(err)
			}
			poll(t, "d has opened its member", func() error {
				if n.nodes["d"].host.Member(q) == nil {
					return errWaiting
				}
				return nil
			})
			for _, s := range steps[:last+1] {
				s.take(t, a, a.host.Member(q), r.Index)
			}
			n.stop("a")
			for _, f := range letGo {
				f()
			}
			n.has(q, "a", "c", "d")
			l.goesOn()
			n.start("a")
			n.has(q, "a", "c", "d")
			l.check(n.nodes["a"], q)
		})
	}
}

func completed(step catalog.MemberStep) func(*testing.T, *testNode, *replica.Member, uint64) {
	return func(t *testing.T, a *testNode, q *replica.Member, change uint64) {
		t.Helper()
		_, err := a.catalog.Propose(testContext(t), &catalog.CompleteMemberStep{UID: q.UID(), Change: change, Step: step})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A member leaves only once that is committed. Its leader removes it while another one, whose disk hangs, has none of
// the newest entries: until that one has the removal, it may still be elected with the vote of the member that left, and
// would lose what those two alone had. So what the leaving one has stored stays until then.
func TestMemberLeavesOnceCommitted(t *testing.T) {
	t.Parallel()
	n, disks := newDiskNodes(t, nil)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q := a.declare(t, "q", 3)
	n.has(q, "a", "b", "c")
	if err := a.leaders.Transfer(testContext(t), q, "a"); err != nil {
		t.Fatal(err)
	}
	l := a.load(t, q)
	l.goesOn()
	hung, release := disks.of(n, "c").HangAt(vfs.OpWrite, 1)
	release = sync.OnceFunc(release)
	defer release()
	<-hung
	l.goesOn() // with a and b alone
	change, err := a.catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: "b", Leave: "b"})
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "the leader waits until the removal of b is committed", func() error {
		r, ok := a.View().QueueByUID(q)
		if !ok || r.Change == nil || r.Change.ID != change.Index || r.Change.Leave != "b" {
			t.Fatalf("c has not got the removal, and b has left: members %q, change %+v", r.Members, r.Change)
		}
		if w := a.changes.Wire(q); !strings.Contains(w.GetDetail(), "is not committed yet") {
			return errors.New(w.GetDetail())
		}
		return nil
	})
	if n.nodes["b"].host.Member(q) == nil {
		t.Error("b has closed its member, which has what c does not have")
	}
	release()
	n.has(q, "a", "b", "c")
	l.goesOn()
	l.check(a, q)
}
