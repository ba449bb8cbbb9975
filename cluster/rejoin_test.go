package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
)

// movedOnce is a cluster of a, b, c and d, all of which vote in the catalog, with a queue that a, b and c had. While a is
// down, b and another member have confirmed 100 messages, and c was replaced by d. So a has the configuration
// of before.
func movedOnce(t *testing.T) (n *testNodes, q id.QueueUID, confirmed []string) {
	t.Helper()
	n = newTestNodes(t, func(c *Config) { c.Reconcile.Disabled = true })
	n.start("a", "b", "c")
	q = n.nodes["a"].declare(t, "q", 3)
	n.start("d")
	n.votes("d", "b")
	n.has(q, "a", "b", "c")
	if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "b"); err != nil {
		t.Fatal(err)
	}
	poll(t, "b leads", func() error {
		if n.leader(q).cfg.Node != "b" {
			return errWaiting
		}
		return nil
	})
	n.stop("a")
	confirmed = n.nodes["b"].publishAll(t, q, "m", 100)
	if err := n.nodes["b"].operator.ReplaceMember(testContext(t), q, "c", "d", nil); err != nil {
		t.Fatal(err)
	}
	n.has(q, "a", "b", "d")
	return n, q, confirmed
}

// intactQueue consumes all and compares it with what was confirmed.
func (n *testNodes) intactQueue(t *testing.T, q id.QueueUID, at id.NodeID, confirmed []string) {
	t.Helper()
	seen := n.nodes[at].drained(t, q)
	lost := 0
	for _, body := range confirmed {
		if seen[body] == 0 {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d confirmed messages are lost", lost, len(confirmed))
	}
}

// A member that has left and joins again with nothing makes no leader of a member that still has the configuration of
// before: its former member's vote no longer counts.
func TestRejoinedMemberElectsNoStaleOne(t *testing.T) {
	t.Parallel()
	n, q, confirmed := movedOnce(t)
	letGo := map[id.NodeID]func(){}
	for _, i := range []id.NodeID{"b", "c", "d"} {
		letGo[i] = n.nodes[i].hold(t)
	}
	if _, err := n.nodes["b"].catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: "c", Leave: "d"}); err != nil {
		t.Fatal(err)
	}
	poll(t, "c has opened its member", func() error {
		if n.nodes["c"].host.Member(q) == nil {
			return errWaiting
		}
		return nil
	})
	n.stop("b")
	n.launch("a")
	n.leader(q) // a, with the vote of c, if anything is wrong; else d
	for _, i := range []id.NodeID{"c", "d"} {
		letGo[i]()
	}
	n.launch("b")
	n.ready("a", "b", "c", "d")
	poll(t, "the change is over", func() error {
		if r := n.record(q); r.Change != nil {
			return fmt.Errorf("it goes on: %+v, led by %q", r.Change, n.leader(q).cfg.Node)
		}
		return nil
	})
	n.intactQueue(t, q, "b", confirmed)
}

// A member that is behind a change gives its vote to one that has joined by it: the queue has a leader while a majority of
// its members runs.
func TestMemberBehindChangeElectsNewOne(t *testing.T) {
	t.Parallel()
	n, q, confirmed := movedOnce(t)
	n.stop("b")
	n.launch("a")
	n.ready("a", "c", "d")
	n.leader(q)
	n.intactQueue(t, q, "a", confirmed)
}

// A joining member waits until the queue has a leader, says why, and takes no part until then.
func TestJoinWaitsForLeader(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Disabled = true })
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.start("d", "e")
	for _, i := range []id.NodeID{"d", "e"} {
		n.votes(i, "a")
	}
	confirmed := n.nodes["a"].publishAll(t, q, "m", 20)
	n.stop("b", "c") // three of five have the catalog, and one of three the queue
	poll(t, "the queue has no leader", func() error {
		if n.nodes["a"].leading(q) != nil {
			return errWaiting
		}
		return nil
	})
	if _, err := n.nodes["a"].catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: "d", Leave: "c"}); err != nil {
		t.Fatal(err)
	}
	d := n.nodes["d"]
	poll(t, "d says what it waits for", func() error {
		_, err := d.leaders.StatusAt(testContext(t), "d", q)
		if err == nil || !strings.Contains(err.Error(), "no leader has said how far the queue is") {
			return fmt.Errorf("it says: %w", err)
		}
		return nil
	})
	if d.host.Member(q) != nil || d.dir.HasQueue(q) {
		t.Error("d has opened its member")
	}
	n.launch("b", "c")
	n.ready("a", "b", "c", "d", "e")
	n.has(q, "a", "b", "d")
	if _, base, err := d.dir.Joined(q); err != nil || base.Term == 0 || base.Index == 0 {
		t.Errorf("d has joined with base %+v, %v", base, err)
	}
	n.intactQueue(t, q, "d", confirmed)
}

// A node that cannot read by which change its member joins deletes nothing, for the member may have its vote: it keeps it
// closed and has the change taken back.
func TestJoinByUnreadableChangeIsTakenBack(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.start("d")
	n.has(q, "a", "b", "c")
	var letGo []func()
	for _, i := range []id.NodeID{"a", "b", "c"} {
		letGo = append(letGo, n.nodes[i].hold(t))
	}
	if _, err := n.nodes["a"].catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: "d"}); err != nil {
		t.Fatal(err)
	}
	poll(t, "d has opened its member", func() error {
		if n.nodes["d"].host.Member(q) == nil {
			return errWaiting
		}
		return nil
	})
	n.stop("d")
	copies, err := filepath.Glob(filepath.Join(n.dir, "d", datadir.QueuesDir, q.String(), "joined.*"))
	if err != nil || len(copies) != 2 {
		t.Fatalf("copies %q, %v", copies, err)
	}
	for _, path := range copies {
		if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.start("d")
	poll(t, "the change is to be taken back", func() error {
		if r := n.record(q); r.Change == nil || !r.Change.Cancelled {
			return fmt.Errorf("it goes on: %+v", r.Change)
		}
		return nil
	})
	if d := n.nodes["d"]; d.host.Member(q) != nil || !d.dir.HasQueue(q) {
		t.Error("d has deleted its member, or opened it")
	}
	for _, f := range letGo {
		f()
	}
	n.has(q, "a", "b", "c")
	if lost := n.nodes["d"].host.LostMembers(); len(lost) > 0 {
		t.Errorf("lost members of d are %v", lost)
	}
}
