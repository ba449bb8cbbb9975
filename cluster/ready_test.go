package cluster

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/id"
)

// RE-6: a node stays ready while the catalog elects another leader, as its queues go on.
func TestReadyOverAnElection(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	old := n.nodes["a"].catalog.Leader()
	n.stop(old)
	var rest []id.NodeID
	for i := range n.nodes {
		if i != old {
			rest = append(rest, i)
		}
	}
	poll(t, "the catalog has another leader", func() error {
		for _, i := range rest {
			if err := n.nodes[i].Ready(); err != nil {
				t.Fatalf("node %s is not ready during the election: %v", i, err)
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
