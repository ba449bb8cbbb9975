package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// readyWithoutLeader is how long a node stays ready at least while the catalog has no leader.
const readyWithoutLeader = 5 * time.Second

// RE-6: a node stays ready while the catalog elects another leader, as its queues go on.
func TestReadyOverAnElection(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	old := n.catalogLeader().cfg.Node
	since := time.Now()
	n.stop(old)
	var rest []id.NodeID
	for i := range n.nodes {
		if i != old {
			rest = append(rest, i)
		}
	}
	poll(t, "the catalog has another leader", func() error {
		for _, i := range rest {
			err := n.nodes[i].Ready()
			if took := time.Since(since); err != nil && took < readyWithoutLeader {
				t.Fatalf("node %s is not ready during the election, after %v: %v", i, took, err)
			}
		}
		if now := n.nodes[rest[0]].catalog.Leader(); now == "" || now == old {
			return errors.New("it has none yet")
		}
		return nil
	})
	n.stop(rest[0])
	poll(t, "a node alone ceases to be ready", func() error {
		if n.nodes[rest[1]].Ready() == nil {
			return errors.New("it is ready")
		}
		return nil
	})
}
