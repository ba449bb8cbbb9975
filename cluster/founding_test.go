package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
)

// More nodes than it takes found one cluster, and the rest joins it.
func TestFoundingWithMoreNodes(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	ids := []id.NodeID{"e", "d", "c", "b", "a"}
	n.start(ids...)
	poll(t, "all are members of one catalog group", func() error {
		for _, i := range ids {
			voters, _, err := n.nodes[i].catalog.Raft().Servers()
			if err != nil || len(voters) != 5 {
				return fmt.Errorf("%s sees voters %q, %w", i, voters, err)
			}
			if s, err := n.nodes[i].Status(testContext(t)); err != nil || s.CatalogLeader != n.nodes["a"].catalog.Leader() {
				return fmt.Errorf("%s sees %+v, %w", i, s, err)
			}
		}
		return nil
	})
}

// A single node founds a cluster of one. A second process on its directory is refused.
func TestSingleNode(t *testing.T) {
	n := newTestNodes(t, func(c *Config) { c.Expect = 1 })
	n.start("a")
	second := n.config("a")
	c, err := Start(context.Background(), second)
	if err == nil {
		n.close(c)
		t.Fatal("a second node started on the same directory")
	}
	_ = second.Peers.Close()
	if !strings.Contains(err.Error(), second.DataDir) || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("error %q", err)
	}
	q := n.nodes["a"].declare(t, "only", 3)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = n.nodes["a"].unloader.Drain(ctx, func(operation.Progress) {})
	if err == nil || !strings.Contains(err.Error(), `queue "only"`) || !strings.Contains(err.Error(), "the catalog") {
		t.Errorf("drain: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("drain waited for groups that have no other member")
	}
	_ = q
}

// A node of another cluster's name or key does not join and does no harm; a directory of
// another cluster is refused.
func TestOutsiders(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef")
	n := newTestNodes(t, func(c *Config) {
		c.Expect, c.Key = 1, key
		switch c.Node {
		case "name":
			c.Name, c.Expect = "other", 2
		case "key":
			c.Key, c.Expect = []byte("fedcba9876543210"), 2
		case "none":
			c.Key, c.Expect = nil, 2
		}
	})
	n.start("a")
	outsiders := []id.NodeID{"name", "key", "none"}
	n.launch(outsiders...)
	for _, i := range outsiders {
		poll(t, "the outsider says what is amiss", func() error {
			err := n.nodes[i].Ready()
			if err == nil {
				t.Fatalf("node %s joined", i)
			}
			if !strings.Contains(err.Error(), "name and key are alike") {
				return err
			}
			return nil
		})
	}
	n.nodes["a"].declare(t, "q", 1)
	if seen := n.nodes["a"].alive(); len(seen) != 1 {
		t.Errorf("seen %q", seen)
	}
	n.stop("name")
	c := n.config("name")
	c.Name = n.name
	if _, err := Start(context.Background(), c); err == nil || !strings.Contains(err.Error(), `belongs to cluster "other"`) {
		t.Errorf("directory of another cluster: %v", err)
	}
	_ = c.Peers.Close()
}

// Nodes that expect different numbers of nodes say so instead of waiting in silence.
func TestExpectDiffers(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		if c.Node == "b" {
			c.Expect = 5
		}
	})
	n.launch("a", "b")
	for self, want := range map[id.NodeID]string{
		"a": `node "a" founds the cluster with 3 nodes, node "b" with 5: set the same number`,
		"b": `node "b" founds the cluster with 5 nodes, node "a" with 3: set the same number`,
	} {
		poll(t, "the node says what is amiss", func() error {
			if err := n.nodes[self].Ready(); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("ready: %w", err)
			}
			return nil
		})
	}
}

// A node may stop while it waits for others.
func TestCloseWhileWaiting(t *testing.T) {
	n := newTestNodes(t, nil)
	n.launch("a")
	if err := n.nodes["a"].Ready(); err == nil || !strings.Contains(err.Error(), "founding takes 3 nodes") {
		t.Errorf("ready: %v", err)
	}
	n.stop("a")
}

// All faults of a configuration come at once.
func TestValidate(t *testing.T) {
	err := Config{Name: "a\nb", Key: []byte("short"), Expect: -1}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"Node is not set", "DataDir", "Peers", "GossipAddr", "control character", "Key is 5 bytes", "Expect is -1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q:\n%v", part, err)
		}
	}
	if _, err := Start(context.Background(), Config{}); err == nil {
		t.Error("started without a configuration")
	}
}

// Nobody waits for the silence of a leader that a new group cannot have: who founds it
// stands at once, and so leads a queue that it was asked for.
func TestFirstElection(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	for _, i := range []id.NodeID{"a", "b", "c"} {
		q := n.nodes[i].declare(t, string(i), 3)
		if l := n.leader(q); l != n.nodes[i] {
			t.Errorf("queue of %s is led by %s", i, l.cfg.Node)
		}
	}
}
