package cluster

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
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
// next one goes on from there, while confirms go on.
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
		_, err := a.catalog.Propose(testContext(t), &catalog.SettleMemberChange{UID: q.UID(), Change: change, Step: step})
		if err != nil {
			t.Fatal(err)
		}
	}
}
