package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// Of six nodes five vote in the catalog. When a voter is away for a while the sixth gets
// its vote, and when it is back it holds a copy without one (RE-6).
func TestCatalogVoterIsReplaced(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("six nodes; run without -short")
	}
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Delay = 500 * time.Millisecond })
	n.start("a", "b", "c")
	n.start("d", "e", "f")
	members := func(voters, others int) (spare id.NodeID) {
		t.Helper()
		poll(t, fmt.Sprintf("%d voters and %d others", voters, others), func() error {
			for i, node := range n.nodes {
				at, err := node.catalog.Raft().Configuration()
				if err != nil || len(at.Voters) != voters || len(at.Nonvoters) != others {
					return fmt.Errorf("node %s: %+v, %w", i, at, err)
				}
				spare = at.Nonvoters[0]
			}
			return nil
		})
		return spare
	}
	spare := members(5, 1)
	var away id.NodeID
	for i, node := range n.nodes {
		if i != spare && node.catalog.Leader() != i {
			away = i
		}
	}
	n.stop(away)
	poll(t, fmt.Sprintf("%s votes in the place of %s", spare, away), func() error {
		for i, node := range n.nodes {
			at, err := node.catalog.Raft().Configuration()
			if err != nil || !slices.Contains(at.Voters, spare) || slices.Contains(at.Voters, away) {
				return fmt.Errorf("node %s: %+v, %w", i, at, err)
			}
		}
		return nil
	})
	n.start(away)
	if still := members(5, 1); still != away {
		t.Errorf("%s does not vote, want %s", still, away)
	}
}

// RE-9: a node that joins is ready once it votes in the catalog, so that whoever takes one node
// after the other never takes the catalog's majority.
func TestReadyNodeVotes(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	n.start("d")
	poll(t, "d is ready", n.nodes["d"].Ready)
	at, err := n.nodes["d"].catalog.Raft().Configuration()
	if err != nil || !slices.Contains(at.Voters, "d") {
		t.Errorf("it is ready with %+v, %v", at, err)
	}
	if err := n.nodes["d"].catalog.Ready(); err != nil {
		t.Error(err)
	}
}
