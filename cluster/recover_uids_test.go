package cluster

import (
	"testing"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// The catalog continues with the log of a node that was away when queues were declared. Their UIDs are not given to
// new queues: by them nodes that were away as well know members of the lost ones, and targets know whose dead letters
// they have (DL-25).
func TestRecoveredCatalogGivesNewUIDs(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.finalised("a", "b", "c")
	known := n.nodes["a"].declare(t, "known", 3)
	n.nodes["a"].publish(t, known, "kept", quorumq.Unlimited)
	poll(t, "a has it", func() error {
		ready := uint64(0)
		if m := n.nodes["a"].host.Member(known); m != nil {
			m.Read(func(state *quorumq.Queue) { ready = state.Overview().Ready })
		}
		if ready != 1 {
			return errWaiting
		}
		return nil
	})
	n.stop("a")
	lost := id.QueueUID(0)
	for _, name := range []string{"lost-1", "lost-2", "lost-3"} {
		lost = max(lost, n.nodes["b"].declare(t, name, 1))
	}
	n.stop("b", "c")
	n.remove("b", "c")
	n.recoverWithout("a", "b", "c")

	n.join = nil
	n.start("a")
	for _, name := range []string{"lost-1", "new"} {
		if uid := n.nodes["a"].declare(t, name, 1); uid <= lost {
			t.Errorf("queue %q gets UID %d, and %d were given out before", name, uid, lost)
		}
	}
	if got := consumeAll(t, n.nodes["a"], known, 1); got[0] != "kept" {
		t.Errorf("the queue that was known has %q", got)
	}
}
