package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// withStores waits until the nodes are known with their stores, as all views have it.
func (n *testNodes) withStores(ids ...id.NodeID) {
	n.t.Helper()
	poll(n.t, "stores are known", func() error {
		for _, i := range ids {
			for _, j := range ids {
				r, known := n.nodes[i].View().Node(j)
				if !known || r.Store != n.nodes[j].dir.Store().Name || r.Epoch != n.nodes[j].epoch {
					return fmt.Errorf("node %s knows node %s as %+v", i, j, r)
				}
			}
		}
		return nil
	})
}

// wipe takes away what a stopped node has on disk.
func (n *testNodes) wipe(i id.NodeID) {
	n.t.Helper()
	if err := os.RemoveAll(filepath.Join(n.dir, string(i))); err != nil {
		n.t.Fatal(err)
	}
}

// refused waits until a node says why it may not take part.
func (n *testNodes) refused(i id.NodeID, parts ...string) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("node %s is refused", i), func() error {
		err := n.nodes[i].Ready()
		for _, part := range parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				return fmt.Errorf("ready: %w", err)
			}
		}
		return nil
	})
}

// idle fails if a node has a part in the catalog or in a queue.
func (n *testNodes) idle(i id.NodeID, q id.QueueUID) {
	n.t.Helper()
	node := n.nodes[i]
	if node.admission.TakesPart() || node.catalog.Founded() {
		n.t.Errorf("node %s takes part in the catalog, which it has forgotten", i)
	}
	if node.host.Member(q) != nil || node.storage.HasQueue(q) {
		n.t.Errorf("node %s has opened queue %s, which it has forgotten", i, q)
	}
}

// changesNothing fails if the catalog takes a command of the node within a time in which it
// would have elected a leader: it has no majority.
func (n *testNode) changesNothing(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if r, err := n.catalog.Propose(ctx, &catalog.DeleteExchange{VHost: "/", Name: "there is none"}); err == nil {
		t.Errorf("the catalog answered node %s with %+v, without a majority", n.cfg.Node, r)
	}
}

// publishAll publishes numbered messages and waits for their confirms.
func (n *testNode) publishAll(t testing.TB, q id.QueueUID, name string, count int) (bodies []string) {
	t.Helper()
	for i := range count {
		bodies = append(bodies, fmt.Sprint(name, i))
		n.publish(t, q, bodies[i], quorumq.Unlimited)
	}
	return bodies
}

// RE-9: a node that lost its disk is refused at every start, also while a node that knows more
// than the others is down: it has no part in majorities. What was confirmed stays.
func TestLostDisk(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.withStores("a", "b", "c")
	n.stop("b")
	confirmed := n.nodes["a"].publishAll(t, q, "by a and c ", 30)
	n.stop("c")
	n.wipe("c")
	for range 2 {
		n.launch("c")
		r, _ := n.nodes["a"].View().Node("c")
		n.refused("c", "nodes replace c", string(r.Store), string(n.nodes["c"].dir.Store().Name))
		n.idle("c", q)
		n.stop("c")
	}
	// Now those that are left have a majority by number, but not without what c had stored.
	n.stop("a")
	n.launch("b", "c")
	poll(t, "b and c see one another, or c is refused", func() error {
		if _, up := n.nodes["b"].mux.Connected("c"); !up && n.nodes["c"].catalog.Refusal() == nil {
			return errWaiting
		}
		return nil
	})
	n.nodes["b"].changesNothing(t)
	n.idle("c", q)
	if b := n.nodes["b"]; b.leading(q) != nil {
		t.Error("b leads the queue without a")
	}
	n.launch("a")
	n.ready("a", "b")
	_, in := n.nodes["b"].consume(t, q)
	in.await(t, confirmed...)
	n.idle("c", q)
}

// votes waits until a node votes in the catalog, as another one knows.
func (n *testNodes) votes(voter, as id.NodeID) {
	n.t.Helper()
	poll(n.t, string(voter)+" votes in the catalog", func() error {
		voters, _, err := n.nodes[as].catalog.Raft().Servers()
		if err != nil || !slices.Contains(voters, voter) {
			return fmt.Errorf("voters %q, %w", voters, err)
		}
		return nil
	})
}

// RE-9: a disk that is given up is replaced by an empty one under the same id. The node's
// members are rebuilt from their peers, and vote only then; what was confirmed stays. The old disk never comes back.
func TestReplaceNode(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.withStores("a", "b", "c")
	confirmed := n.nodes["a"].publishAll(t, q, "before ", 10)
	if err := n.nodes["a"].operator.ReplaceNode(testContext(t), "c", true, nil); err == nil || !strings.Contains(err.Error(), `node "c" runs`) {
		t.Errorf("a node that runs is replaced: %v", err)
	}
	n.stop("c")
	old := filepath.Join(n.dir, "old")
	if err := os.Rename(filepath.Join(n.dir, "c"), old); err != nil {
		t.Fatal(err)
	}
	n.launch("c")
	n.refused("c", "nodes replace c")
	confirmed = append(confirmed, n.nodes["a"].publishAll(t, q, "without c ", 10)...)
	poll(t, "a says that it refuses c", func() error { // perhaps c has been refused by b alone so far
		s, err := n.nodes["a"].Status(testContext(t))
		if by := n.nodes["a"].RefusedPeers(); err != nil || !strings.Contains(refusedIn(s, "c"), "nodes replace c") || by["store"] != 1 {
			return fmt.Errorf("the status says of c %q, %w; refused peers are %v", refusedIn(s, "c"), err, by)
		}
		return nil
	})
	for range 2 { // to repeat it does no harm
		if err := n.nodes["a"].operator.ReplaceNode(testContext(t), "c", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	// It is let in as soon as it asks to join, without a restart.
	n.ready("c")
	n.withStores("a", "b", "c")
	n.built(q, "c")
	n.votes("c", "a")
	// With c's new member, a majority has what was confirmed.
	n.stop("a")
	confirmed = append(confirmed, n.nodes["b"].publishAll(t, q, "without a ", 10)...)
	n.start("a")
	_, in := n.nodes["b"].consume(t, q)
	in.await(t, confirmed...)

	n.stop("c")
	if err := errors.Join(os.Rename(filepath.Join(n.dir, "c"), filepath.Join(n.dir, "new")), os.Rename(old, filepath.Join(n.dir, "c"))); err != nil {
		t.Fatal(err)
	}
	n.launch("c")
	n.refused("c", "nodes replace c") // by now it is just another store
	if r, _ := n.nodes["a"].View().Node("c"); r.Former != n.nodes["c"].dir.Store().Name {
		t.Errorf("node c is %+v, its old store %q", r, n.nodes["c"].dir.Store().Name)
	}
}

// RE-9, G11: a node that starts with the view of its last snapshot, from before a replacement, lets the replaced node
// in all the same: it may need that very node to get a newer view.
func TestReplacedNodeAndOldView(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.withStores("a", "b", "c")
	confirmed := n.nodes["a"].publishAll(t, q, "before ", 10)
	if err := n.nodes["b"].catalog.Raft().Snapshot(); err != nil {
		t.Fatal(err)
	}
	n.stop("c")
	n.wipe("c")
	n.launch("c")
	n.refused("c", "nodes replace c")
	if err := n.nodes["a"].operator.ReplaceNode(testContext(t), "c", false, nil); err != nil {
		t.Fatal(err)
	}
	n.ready("c")
	n.built(q, "c")
	n.votes("c", "a")
	n.stop("a", "b", "c")
	n.launch("b", "c") // two of three
	n.ready("b", "c")
	_, in := n.nodes["b"].consume(t, q)
	in.await(t, confirmed...)
}

func refusedIn(s Status, n id.NodeID) string {
	for _, at := range s.Nodes {
		if at.ID == n {
			return at.Refused
		}
	}
	return ""
}

// RE-9: a store is given up only while all groups have a majority without it, and messages
// that are nowhere else are lost only with consent.
func TestReplacementIsRefused(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	all, alone := n.nodes["a"].declare(t, "all", 3), n.nodes["c"].declare(t, "alone", 1)
	if r, ok := n.nodes["c"].View().QueueByUID(alone); !ok || !slices.Equal(r.Members, []id.NodeID{"c"}) {
		t.Fatalf("the members of queue alone are %q", r.Members)
	}
	n.withStores("a", "b", "c")
	n.nodes["a"].publish(t, all, "kept", quorumq.Unlimited)
	n.stop("c")
	n.wipe("c")
	n.launch("c")
	n.refused("c", "nodes replace c")
	a := n.nodes["a"]
	p, err := a.operator.PlanReplacement(testContext(t), "c")
	if err != nil || p.Keep != 1 || len(p.Alone) != 1 || p.Alone[0].UID != alone || len(p.Short) != 0 || p.Vacant {
		t.Fatalf("planned %+v, %v", p, err)
	}
	if err := a.operator.ReplaceNode(testContext(t), "c", false, nil); err == nil || !strings.Contains(err.Error(), `queue "alone"`) || !strings.Contains(err.Error(), "--accept-loss") {
		t.Errorf("messages are lost without consent: %v", err)
	}
	n.stop("b")
	if err := a.operator.ReplaceNode(testContext(t), "c", true, nil); err == nil { // as the catalog, or the queue, has none
		t.Errorf("replaced without a majority: %v", err)
	}
	n.start("b")
	n.ready("a", "b")
	poll(t, "c is replaced", func() error { return a.operator.ReplaceNode(testContext(t), "c", true, nil) })
	n.ready("c")
	n.built(all, "c")
	if _, ok := a.View().QueueByUID(alone); ok {
		t.Error("the queue that was lost is still there")
	}
}

// RE-9: a node that lost its disk is let in by itself after a time, if that is configured.
func TestLostNodeReturnsByItself(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.Reconcile.ReplaceAfter = time.Second })
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.withStores("a", "b", "c")
	confirmed := n.nodes["a"].publishAll(t, q, "before ", 10)
	n.stop("b")
	n.wipe("b")
	n.launch("b")
	n.ready("b")
	n.built(q, "b")
	if replaced := n.nodes["a"].operator.NodesReplaced() + n.nodes["c"].operator.NodesReplaced(); replaced != 1 {
		t.Errorf("%d nodes were replaced", replaced)
	}
	n.stop("a")
	_, in := n.nodes["c"].consume(t, q)
	in.await(t, confirmed...)
}

// built waits until a node's member of a queue was rebuilt and is one of its voters.
func (n *testNodes) built(q id.QueueUID, i id.NodeID) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("the member on node %s is built anew", i), func() error {
		r, ok := n.nodes[i].View().QueueByUID(q)
		m := n.nodes[i].host.Member(q)
		if !ok || r.Change != nil || !slices.Contains(r.Members, i) || m == nil || m.Joined() == 0 {
			return fmt.Errorf("record %+v, member %v", r, m != nil)
		}
		return nil
	})
}

// RE-9: a member of the catalog whose log is gone, or ends before what it had acknowledged, is
// noticed at the start. It has no part until the group has been seen without it, and comes back
// by itself.
func TestLostCatalogLog(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string, n *testNodes){
		"removed": func(t *testing.T, dir string, _ *testNodes) {
			if err := os.Remove(filepath.Join(dir, datadir.CatalogDir, datadir.CatalogLog)); err != nil {
				t.Fatal(err)
			}
		},
		"directory removed": func(t *testing.T, dir string, _ *testNodes) {
			if err := os.RemoveAll(filepath.Join(dir, datadir.CatalogDir)); err != nil {
				t.Fatal(err)
			}
		},
		"older copy": func(t *testing.T, dir string, n *testNodes) {
			copyFile(t, filepath.Join(n.dir, "early"), filepath.Join(dir, datadir.CatalogDir, datadir.CatalogLog))
			if err := os.RemoveAll(filepath.Join(dir, datadir.CatalogDir, datadir.SnapshotsDir)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTestNodes(t, nil)
			n.start("a", "b", "c")
			n.withStores("a", "b", "c")
			n.stop("c")
			copyFile(t, filepath.Join(n.dir, "c", datadir.CatalogDir, datadir.CatalogLog), filepath.Join(n.dir, "early"))
			n.start("c")
			q := n.nodes["a"].declare(t, "q", 3)
			n.nodes["a"].publish(t, q, "kept", quorumq.Unlimited)
			n.caughtUp(q, "c")
			poll(t, "c has the catalog", func() error {
				if n.nodes["c"].catalog.Raft().Stats().CommitIndex < n.nodes["a"].View().Index() {
					return errWaiting
				}
				return nil
			})
			n.stop("c")
			harm(t, filepath.Join(n.dir, "c"), n)
			n.stop("b") // without it nobody takes c out, and a has no majority
			n.launch("c")
			poll(t, "c asks", func() error {
				if _, up := n.nodes["a"].mux.Connected("c"); !up {
					return errWaiting
				}
				return nil
			})
			n.nodes["a"].changesNothing(t)
			if c := n.nodes["c"]; c.admission.TakesPart() || c.catalog.Founded() {
				t.Errorf("takes part %v, founded %v", c.admission.TakesPart(), c.catalog.Founded())
			}
			n.launch("b")
			n.ready("a", "b", "c")
			if s := n.nodes["c"].dir.Store(); s.Began == 0 || s.Base.Term == 0 || s.Base.Index < s.Began {
				t.Errorf("c has not begun anew: %+v", s)
			}
			_, in := n.nodes["c"].consume(t, q)
			in.await(t, "kept")
		})
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(to)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err := errors.Join(err, out.Close(), in.Close()); err != nil {
		t.Fatal(err)
	}
}

// RE-9: members whose log is gone, or ends before what it had made durable, do not act: they
// are rebuilt.
func TestShortLog(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, n *testNodes, q id.QueueUID){
		"removed": func(t *testing.T, n *testNodes, _ id.QueueUID) {
			if err := os.RemoveAll(filepath.Join(n.dir, "c", datadir.LogDir)); err != nil {
				t.Fatal(err)
			}
		},
		"halved": func(t *testing.T, n *testNodes, _ id.QueueUID) {
			last := n.segments("c")
			path := last[len(last)-1]
			s, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, s.Size()/2)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"tail zeroed": func(t *testing.T, n *testNodes, _ id.QueueUID) {
			found := n.segments("c")
			path := found[len(found)-1]
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := strings.LastIndex(string(b), "confirmed 9")
			clear(b[at-40:])
			harmFile(t, path, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTestNodes(t, nil)
			n.start("a", "b", "c")
			q := n.nodes["a"].declare(t, "q", 3)
			n.withStores("a", "b", "c")
			n.stop("b")
			confirmed := n.nodes["a"].publishAll(t, q, "confirmed ", 10)
			n.caughtUp(q, "c")
			n.stop("c")
			harm(t, n, q)
			n.stop("a")
			// b lacks what was confirmed, c has lost it.
			n.launch("b", "c")
			poll(t, "c keeps its member closed", func() error {
				if !slices.Contains(n.nodes["c"].host.LostMembers(), q) {
					return fmt.Errorf("ready: %w", n.nodes["c"].Ready())
				}
				return nil
			})
			n.ready("b", "c")
			if b := n.nodes["b"]; b.leading(q) != nil {
				t.Error("b leads with c's vote")
			}
			n.launch("a")
			n.ready("a")
			n.built(q, "c")
			_, in := n.nodes["c"].consume(t, q)
			in.await(t, confirmed...)
		})
	}
}

func harmFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// RE-9: an id that was forgotten comes back with an empty directory, and with no other. Its
// epochs lie above all that it had, so that nothing of it is taken for a repeat.
func TestForgottenComesBack(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.start("d")
	n.withStores("a", "b", "c", "d")
	q := n.nodes["d"].declare(t, "q", 3)
	first := n.nodes["d"].publishAll(t, q, "of the first d ", 3)
	last := n.nodes["d"].epoch
	if n.leader(q) == n.nodes["d"] {
		if err := n.nodes["d"].unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Contains(n.record(q).Members, "d") {
		if _, err := n.nodes["a"].catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: n.missing(q), Leave: "d"}); err != nil {
			t.Fatal(err)
		}
		poll(t, "d is no member", func() error {
			if r := n.record(q); slices.Contains(r.Members, "d") || r.Change != nil {
				return fmt.Errorf("%+v", r)
			}
			return nil
		})
	}
	n.stop("d")
	if _, err := n.nodes["a"].catalog.Propose(testContext(t), &catalog.ForgetNode{ID: "d"}); err != nil {
		t.Fatal(err)
	}
	n.launch("d")
	n.refused("d", "was taken out of the cluster")
	n.stop("d")
	n.wipe("d")
	n.start("d")
	if now := n.nodes["d"].epoch; now <= last {
		t.Errorf("epoch %d after %d", now, last)
	}
	second := n.nodes["d"].publishAll(t, q, "of the second d ", 3)
	_, in := n.nodes["a"].consume(t, q)
	in.await(t, append(first, second...)...)
}

func (n *testNodes) record(q id.QueueUID) *catalog.QueueRecord {
	n.t.Helper()
	r, ok := n.nodes["a"].View().QueueByUID(q)
	if !ok {
		n.t.Fatalf("no queue %s", q)
	}
	return r
}

// missing returns a node of a, b and c that is no member of a queue.
func (n *testNodes) missing(q id.QueueUID) id.NodeID {
	n.t.Helper()
	r := n.record(q)
	for _, i := range []id.NodeID{"a", "b", "c"} {
		if !slices.Contains(r.Members, i) {
			return i
		}
	}
	n.t.Fatalf("all are members: %+v", r)
	return ""
}
