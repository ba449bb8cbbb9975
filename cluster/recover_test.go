package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/recovery"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// openRecovery opens a stopped node for the recovery from the loss of others.
func (n *testNodes) openRecovery(i id.NodeID, lost []id.NodeID, reports ...recovery.Report) (*recovery.Recovery, error) {
	n.t.Helper()
	return recovery.Open(recovery.Config{Name: n.name, Node: i, DataDir: filepath.Join(n.dir, string(i)), Lost: lost, Reports: reports})
}

// recoverWithout lets a stopped node go on without others that are lost.
func (n *testNodes) recoverWithout(i id.NodeID, lost ...id.NodeID) {
	n.t.Helper()
	r, err := n.openRecovery(i, lost)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := errors.Join(r.Run(), r.Close()); err != nil {
		n.t.Fatal(err)
	}
}

func (n *testNodes) remove(ids ...id.NodeID) {
	n.t.Helper()
	for _, i := range ids {
		if err := os.RemoveAll(filepath.Join(n.dir, string(i))); err != nil {
			n.t.Fatal(err)
		}
	}
}

func actions(r *recovery.Recovery) map[string]recovery.Action {
	out := map[string]recovery.Action{}
	for i := range r.Groups {
		out[r.Groups[i].String()] = r.Groups[i].Action
	}
	return out
}

// Two of three nodes are lost for good. The third continues alone with all that it had, a queue of which it had
// nothing starts over, the cluster grows again, and a lost node that turns up after all, with an old copy of its
// directory, is kept out.
func TestRecoverFromLostMajority(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		c.Reconcile.Delay = 50 * time.Millisecond
	})
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	elsewhere := id.QueueUID(0)
	for i := 0; elsewhere == 0; i++ {
		u := n.nodes["b"].declare(t, fmt.Sprint("single-", i), 1)
		r, _ := n.nodes["b"].View().QueueByUID(u)
		if r.Members[0] != "a" {
			elsewhere = u
		}
	}
	var bodies []string
	for i := range 20 {
		bodies = append(bodies, fmt.Sprint("body ", i))
		n.nodes["b"].publish(t, q, bodies[i], quorumq.Unlimited)
	}
	n.nodes["b"].publish(t, elsewhere, "gone with its node", quorumq.Unlimited)
	poll(t, "a has all of the log", func() error {
		for i, node := range n.nodes {
			if node.host.Member(q) == nil {
				return fmt.Errorf("node %s has no member yet", i)
			}
		}
		have := n.nodes["a"].host.Member(q).Group().Stats().AppliedIndex
		for _, other := range n.nodes {
			if last := other.host.Member(q).Group().Stats().LastIndex; last > have {
				return fmt.Errorf("%d of %d", have, last)
			}
		}
		return nil
	})
	n.stop("a", "b", "c")
	old := filepath.Join(n.dir, "old copy")
	if err := os.CopyFS(old, os.DirFS(filepath.Join(n.dir, "b"))); err != nil {
		t.Fatal(err)
	}
	n.remove("b", "c")

	recoverAlone(t, n, elsewhere)

	n.join = nil
	n.start("a")
	in := consumeAll(t, n.nodes["a"], q, len(bodies))
	if !slices.Equal(in, bodies) {
		t.Errorf("delivered %q, want %q", in, bodies)
	}
	if o := n.nodes["a"].overviewAt(t, elsewhere); o.Ready != 0 {
		t.Errorf("the queue that was lost has %d messages", o.Ready)
	}
	n.nodes["a"].publish(t, elsewhere, "new", quorumq.Unlimited)

	n.start("d", "e")
	poll(t, "the queue has three members again", func() error {
		if r, _ := n.nodes["a"].View().QueueByUID(q); len(r.Members) != 3 || r.Change != nil {
			return fmt.Errorf("members %q, change %v", r.Members, r.Change)
		}
		return nil
	})
	n.nodes["d"].publish(t, q, "after the growth", quorumq.Unlimited)

	if err := os.Rename(old, filepath.Join(n.dir, "b")); err != nil {
		t.Fatal(err)
	}
	n.launch("b")
	poll(t, "b is refused", func() error {
		for _, i := range []id.NodeID{"a", "d"} {
			if _, up := n.nodes[i].mux.Connected("b"); up {
				t.Fatalf("%s has a link to a node that was given up", i)
			}
		}
		if _, up := n.nodes["b"].mux.Connected("a"); up {
			t.Fatal("b has a link to a")
		}
		if !slices.Contains(n.nodes["a"].alive(), "b") {
			return errors.New("gossip does not know it yet")
		}
		return nil
	})
	if n.nodes["b"].Ready() == nil {
		t.Error("a node that was given up is ready")
	}
}

// recoverAlone recovers a from the loss of b and c, after attempts that are refused.
func recoverAlone(t *testing.T, n *testNodes, elsewhere id.QueueUID) {
	t.Helper()
	for want, lost := range map[string][]id.NodeID{
		`node "a" is this one`:    {"a", "b"},
		`lost node "nobody" is n`: {"b", "nobody"},
	} {
		if _, err := n.openRecovery("a", lost); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q lost: %v", lost, err)
		}
	}
	partly, err := n.openRecovery("a", []id.NodeID{"b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(partly.Run(), partly.Close()); err == nil || !strings.Contains(err.Error(), "nothing is to be recovered") {
		t.Errorf("with a majority left: %v", err)
	}
	lost := []id.NodeID{"b", "c"}
	r, err := n.openRecovery("a", lost)
	if err != nil {
		t.Fatal(err)
	}
	lone := slices.IndexFunc(r.Groups, func(g recovery.Group) bool { return g.Group == elsewhere.Group() })
	got := actions(r)
	for name, want := range map[string]recovery.Action{
		"the catalog":            recovery.Here,
		`queue "q" in vhost "/"`: recovery.Here,
		r.Groups[lone].String():  recovery.Empty,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	if !slices.Equal(r.Forgotten, lost) {
		t.Errorf("%q are forgotten", r.Forgotten)
	}
	// It breaks off in front of the catalog, and is repeated.
	files, before := filepath.Join(n.dir, "a", datadir.CatalogDir), filepath.Join(n.dir, "before")
	if err := os.CopyFS(before, os.DirFS(files)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Run(), r.Close(), os.RemoveAll(files), os.Rename(before, files)); err != nil {
		t.Fatal(err)
	}
	if r, err = n.openRecovery("a", lost); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Run(), r.Close()); err != nil {
		t.Fatal(err)
	}
}

// Nodes that were given up come back with empty directories, and have a majority with the survivor. It starts again, with a
// view from before that, needs one of them to get a newer one, and lets it in, but not what it had stored before.
func TestRecoveredSurvivorStartsAgain(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "first", quorumq.Unlimited)
	n.stop("a", "b", "c")
	old := filepath.Join(n.dir, "old copy")
	if err := os.CopyFS(old, os.DirFS(filepath.Join(n.dir, "b"))); err != nil {
		t.Fatal(err)
	}
	n.remove("b", "c")
	n.recoverWithout("a", "b", "c")
	n.join = nil
	n.start("a")
	n.start("b", "c")
	n.withStores("a", "b", "c")
	n.votersAre("a", "b", "c")

	n.stop("a", "c")
	n.launch("a")
	n.ready("a", "b")
	n.stop("a", "b")

	n.remove("b")
	if err := os.Rename(old, filepath.Join(n.dir, "b")); err != nil {
		t.Fatal(err)
	}
	n.launch("a")
	n.launch("b")
	poll(t, "the old copy of b is refused", func() error {
		if _, up := n.nodes["a"].mux.Connected("b"); up {
			t.Fatal("a has a link to what it has given up")
		}
		if by := n.nodes["a"].judge.Refused(); by["recovered"] == 0 {
			return fmt.Errorf("refused: %v", by)
		}
		return nil
	})
}

// Two of five are left: each wants the other's report, and the one with the newest log
// continues with both as voters.
func TestRecoverComparesLogs(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.Expect = 5 })
	all := []id.NodeID{"a", "b", "c", "d", "e"}
	n.start(all...)
	q := n.nodes["a"].declare(t, "q", 5)
	n.nodes["a"].publish(t, q, "first", quorumq.Unlimited)
	poll(t, "all have it", func() error {
		for i, node := range n.nodes {
			if g := node.host.Member(q); g == nil || g.Group().Stats().AppliedIndex == 0 {
				return fmt.Errorf("%s lacks it", i)
			}
		}
		return nil
	})
	n.stop("b") // lags behind from here on
	n.nodes["a"].publish(t, q, "second", quorumq.Unlimited)
	poll(t, "a has it", func() error {
		want := n.nodes["c"].host.Member(q).Group().Stats().CommitIndex
		if have := n.nodes["a"].host.Member(q).Group().Stats().AppliedIndex; have < want {
			return fmt.Errorf("%d of %d", have, want)
		}
		return nil
	})
	n.stop("a", "c", "d", "e")
	lost := []id.NodeID{"c", "d", "e"}
	n.remove(lost...)

	blind, err := n.openRecovery("a", lost)
	if err != nil {
		t.Fatal(err)
	}
	name := `queue "q" in vhost "/"`
	if actions(blind)[name] != recovery.Unknown {
		t.Errorf("without a report: %v", actions(blind))
	}
	fromA := blind.Report
	if err := errors.Join(blind.Run(), blind.Close()); err == nil || !strings.Contains(err.Error(), `["b"]`) {
		t.Errorf("without a report: %v", err)
	}
	onB, err := n.openRecovery("b", lost, fromA)
	if err != nil {
		t.Fatal(err)
	}
	fromB := onB.Report
	if actions(onB)[name] != recovery.Elsewhere || actions(onB)["the catalog"] != recovery.Elsewhere {
		t.Errorf("on b: %v", actions(onB))
	}
	if err := errors.Join(onB.Run(), onB.Close()); err == nil || !strings.Contains(err.Error(), "log of another node") {
		t.Errorf("on b: %v", err)
	}
	onA, err := n.openRecovery("a", lost, fromB)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(onA.Run(), onA.Close()); err != nil {
		t.Fatal(err)
	}
	n.join = nil
	n.start("a", "b")
	if got := consumeAll(t, n.nodes["b"], q, 2); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("delivered %q", got)
	}
	r, _ := n.nodes["b"].View().QueueByUID(q)
	_, ended := n.nodes["b"].View().Ended("d")
	if !slices.Equal(r.Members, []id.NodeID{"a", "b"}) || n.nodes["b"].View().NodeCount() != 2 || !ended {
		t.Errorf("members %q, %d nodes", r.Members, n.nodes["b"].View().NodeCount())
	}
}

// consumeAll returns the bodies of the first messages.
func consumeAll(t *testing.T, node *testNode, q id.QueueUID, count int) []string {
	t.Helper()
	_, in := node.consume(t, q)
	poll(t, "the messages are delivered", func() error {
		if got := len(in.bodies()); got < count {
			return fmt.Errorf("%d of %d", got, count)
		}
		return nil
	})
	return in.bodies()
}

func (n *testNode) overviewAt(t *testing.T, q id.QueueUID) quorumq.Overview {
	t.Helper()
	s, err := n.leaders.Status(testContext(t), q)
	if err != nil {
		t.Fatal(err)
	}
	return s.Overview
}
