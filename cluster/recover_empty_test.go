package cluster

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/recovery"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

// The majority was lost after a queue was declared, and before its member on the node that is left began. The queue
// starts over there, instead of staying without a leader for good.
func TestRecoveredQueueThatHadNotBegun(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.caughtUp(q, "a")
	n.stop("a", "b", "c")
	n.remove("b", "c")
	n.dropMember("a", q)
	r, err := n.openRecovery("a", []id.NodeID{"b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	if got := actions(r)[`queue "q" in vhost "/"`]; got != recovery.Empty {
		t.Errorf("the queue %s", got)
	}
	if err := errors.Join(r.Run(), r.Close()); err != nil {
		t.Fatal(err)
	}
	n.join = nil
	n.start("a")
	n.nodes["a"].publish(t, q, "new", quorumq.Unlimited)
	if in := consumeAll(t, n.nodes["a"], q, 1); !slices.Equal(in, []string{"new"}) {
		t.Errorf("delivered %q", in)
	}
}

// dropMember makes a stopped node have nothing of a queue.
func (n *testNodes) dropMember(i id.NodeID, q id.QueueUID) {
	n.t.Helper()
	dir, err := datadir.Open(filepath.Join(n.dir, string(i)), n.name, i)
	if err != nil {
		n.t.Fatal(err)
	}
	s, err := storage.Open(storage.Config{
		Dir: dir, TailBytes: wal.DefaultTailBytes, Failed: func(err error) { n.t.Error(err) },
		Lost: func(id.GroupID, error) {}, Pressed: func() {}, Opening: func(int, int) {},
	})
	if err == nil {
		err = errors.Join(s.DropQueue(q), s.Close())
	}
	if err := errors.Join(err, dir.Close()); err != nil {
		n.t.Fatal(err)
	}
}
