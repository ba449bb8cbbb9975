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

// Two of five nodes are left, and one of them has lost the log of its queues. A queue of which both are members
// continues with what the other has, and the one without a log joins it as a new member.
func TestRecoverWithoutASurvivorsLog(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		c.Expect, c.Reconcile.Delay = 5, 50*time.Millisecond
	})
	n.start("a", "b", "c", "d", "e")
	both := n.declareOn("a", "b")
	n.nodes["a"].publish(t, both, "kept", quorumq.Unlimited)
	n.caughtUp(both, "a")
	n.stop("a", "b", "c", "d", "e")
	lost := []id.NodeID{"c", "d", "e"}
	n.remove(lost...)
	if err := os.RemoveAll(filepath.Join(n.dir, "b", datadir.LogDir)); err != nil {
		t.Fatal(err)
	}
	n.recoverBoth(lost)

	n.join = nil
	n.start("a", "b")
	if in := consumeAll(t, n.nodes["a"], both, 1); !slices.Equal(in, []string{"kept"}) {
		t.Errorf("delivered %q", in)
	}
	n.has(both, "a", "b")
}

// declareOn declares queues of three until one has the members, and another one.
func (n *testNodes) declareOn(members ...id.NodeID) id.QueueUID {
	n.t.Helper()
	for i := range 100 {
		uid := n.nodes["a"].declare(n.t, fmt.Sprint("q", i), 3)
		if r, _ := n.nodes["a"].View().QueueByUID(uid); !slices.ContainsFunc(members, func(m id.NodeID) bool { return !r.Holds(m) }) {
			return uid
		}
	}
	n.t.Fatalf("no queue has the members %q", members)
	return 0
}

// recoverBoth recovers a and b, each with the other's report.
func (n *testNodes) recoverBoth(lost []id.NodeID) {
	n.t.Helper()
	reports := map[id.NodeID]recovery.Report{}
	for _, i := range []id.NodeID{"a", "b"} {
		r, err := n.openRecovery(i, lost)
		if err != nil {
			n.t.Fatal(err)
		}
		reports[i] = r.Report
		if err := r.Close(); err != nil {
			n.t.Fatal(err)
		}
	}
	for i, other := range map[id.NodeID]id.NodeID{"a": "b", "b": "a"} {
		r, err := n.openRecovery(i, lost, reports[other])
		if err != nil {
			n.t.Fatal(err)
		}
		err = r.Run()
		if err != nil && strings.Contains(err.Error(), "nothing is to be recovered") {
			err = nil // all continues with what the other has
		}
		if err := errors.Join(err, r.Close()); err != nil {
			n.t.Fatal(err)
		}
	}
}
