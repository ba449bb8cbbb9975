package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// segments returns the files of a stopped node's log, oldest first.
func (n *testNodes) segments(i id.NodeID) []string {
	n.t.Helper()
	found, err := filepath.Glob(filepath.Join(n.dir, string(i), datadir.LogDir, "*.wal"))
	if err != nil || len(found) == 0 {
		n.t.Fatalf("node %s has no segments: %v", i, err)
	}
	slices.Sort(found)
	return found
}

// flip changes one bit of the first place of a file where the text is.
func flip(t testing.TB, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(text))
	if at < 0 {
		t.Fatalf("%s does not hold %q", path, text)
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A member that finds its log or its snapshot damaged, or a part of the log
// gone, is kept closed and reported; its node is ready and its other queues go on, and so
// do the other members.
func TestLostMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(n *testNodes, q id.QueueUID)
		reason string
	}{
		"bit flip in the log": {func(n *testNodes, _ id.QueueUID) {
			flip(n.t, n.segments("c")[0], "kept by three")
		}, "wrong checksum"},
		"segment gone": {func(n *testNodes, q id.QueueUID) {
			n.start("c") // makes a second segment
			n.nodes["a"].publish(n.t, q, "second", quorumq.Unlimited)
			n.caughtUp(q, "c")
			n.stop("c")
			if err := os.Remove(n.segments("c")[0]); err != nil {
				n.t.Fatal(err)
			}
		}, "lacks the segments"},
		"bit flip in a snapshot": {func(n *testNodes, q id.QueueUID) {
			found, err := filepath.Glob(filepath.Join(n.dir, "c", datadir.QueuesDir, q.String(), datadir.SnapshotsDir, "*.snapshot"))
			if err != nil || len(found) != 1 {
				n.t.Fatalf("snapshots %q, %v", found, err)
			}
			b, err := os.ReadFile(found[0])
			if err != nil {
				n.t.Fatal(err)
			}
			b[len(b)-1] ^= 1
			if err := os.WriteFile(found[0], b, 0o600); err != nil {
				n.t.Fatal(err)
			}
		}, "checksum"},
		"log gone under a snapshot": {func(n *testNodes, _ id.QueueUID) {
			for _, s := range n.segments("c") {
				if err := os.Remove(s); err != nil {
					n.t.Fatal(err)
				}
			}
		}, "has no segments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTestNodes(t, func(cfg *Config) {
				cfg.Reconcile.Disabled = true // else it would be rebuilt
			})
			n.start("a", "b", "c")
			q := n.nodes["a"].declare(t, "q", 3)
			n.nodes["a"].publish(t, q, "first", quorumq.Unlimited)
			n.caughtUp(q, "c")
			if err := n.nodes["c"].host.Member(q).Group().Snapshot(); err != nil {
				t.Fatal(err)
			}
			n.nodes["a"].publish(t, q, "kept by three", quorumq.Unlimited)
			n.caughtUp(q, "c")
			n.stop("c")
			c.damage(n, q)
			n.start("c") // and it becomes ready

			node := n.nodes["c"]
			if got := node.host.LostMembers(); !slices.Equal(got, []id.QueueUID{q}) {
				t.Fatalf("lost members are %v", got)
			}
			s, err := node.calls().NodeStatus(t.Context(), &nodev1.NodeStatusRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if l := s.GetLost(); len(l) != 1 || l[0].GetQueue() != uint64(q) || !strings.Contains(l[0].GetReason(), c.reason) {
				t.Errorf("status tells %v, want queue %s and %q", l, q, c.reason)
			}
			if all, err := n.nodes["a"].NodeDetails(testContext(t)); err != nil || all["c"].Lost != 1 || all["a"].Lost != 0 {
				t.Errorf("details are %+v, %v", all, err)
			}
			if m := node.host.Member(q); m != nil && m.Group().Failed() == nil {
				t.Error("the member is open")
			}
			n.nodes["a"].publish(t, q, "by two", quorumq.Unlimited)
			other := node.declare(t, "other", 3)
			node.publish(t, other, "x", quorumq.Unlimited)
			if got := node.host.LostMembers(); len(got) != 1 {
				t.Errorf("lost members are %v", got)
			}
			if _, err := node.catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: "c", Leave: "c"}); err != nil {
				t.Fatal(err)
			}
			poll(t, "it is wiped, and built anew", func() error {
				if got := node.host.LostMembers(); len(got) != 0 {
					return fmt.Errorf("lost members are %v", got)
				}
				return nil
			})
		})
	}
}

// caughtUp waits until a node's member has applied what its leader has.
func (n *testNodes) caughtUp(q id.QueueUID, i id.NodeID) {
	n.t.Helper()
	want := n.leader(q).host.Member(q).Group().Stats().AppliedIndex
	poll(n.t, fmt.Sprintf("node %s has caught up", i), func() error {
		m := n.nodes[i].host.Member(q)
		if m == nil {
			return errors.New("no member is open")
		}
		if s := m.Group().Stats(); s.AppliedIndex < want {
			return fmt.Errorf("at %d of %d", s.AppliedIndex, want)
		}
		return nil
	})
}
