package cluster

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/internal/loopback"
)

// The harness: clusters of tests that run beside each other stay apart, although a node of one may get an
// address that one of the other had before.
func TestClustersStayApart(t *testing.T) {
	t.Parallel()
	address, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	edit := func(c *Config) {
		if c.Node == "c" {
			c.GossipAddr = address
		}
	}
	one, other := newTestNodes(t, edit), newTestNodes(t, edit)
	one.start("a", "b", "c")
	one.stop("c")
	other.start("a", "b", "c")
	one.stop("a", "b")
	one.start("a", "b") // which know c's address
	for _, g := range one.nodes["a"].members.Nodes() {
		if g.Alive && g.ID != "a" && g.ID != "b" {
			t.Errorf("node %s of the other cluster is seen at %s", g.ID, g.GossipAddr)
		}
	}
	for i, node := range other.nodes {
		if err := node.Ready(); err != nil {
			t.Error(fmt.Errorf("node %s of the other cluster: %w", i, err))
		}
	}
}
