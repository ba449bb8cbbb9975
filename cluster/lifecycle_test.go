package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// RE-7: what was confirmed survives a restart of all nodes; epochs rise; nothing runs on
// after Close.
func TestRestart(t *testing.T) {
	before := runtime.NumGoroutine()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	var queues []id.QueueUID
	for i := range 5 {
		q := n.nodes["b"].declare(t, fmt.Sprint("q", i), 3)
		n.nodes["b"].publish(t, q, "kept", quorumq.Unlimited)
		queues = append(queues, q)
	}
	epoch := n.nodes["a"].epoch
	n.stop("a")
	// A queue is deleted while a is away.
	if _, err := n.nodes["b"].catalog.Propose(testContext(t), &catalog.DeleteQueue{VHost: "/", Name: "q4"}); err != nil {
		t.Fatal(err)
	}
	n.stop("b", "c")
	poll(t, "no goroutine is left", func() error {
		// Transport and gRPC end some of theirs behind their Close.
		if now := runtime.NumGoroutine(); now > before+2 {
			b := make([]byte, 1<<20)
			return fmt.Errorf("%d before, %d now:\n%s", before, now, b[:runtime.Stack(b, true)])
		}
		return nil
	})
	n.join = nil
	n.start("c", "a", "b")
	if now := n.nodes["a"].epoch; now <= epoch {
		t.Errorf("epoch %d after %d", now, epoch)
	}
	for _, q := range queues[:4] {
		if o := n.overview(q); o.Ready != 1 {
			t.Errorf("queue %s: %+v", q, o)
		}
	}
	poll(t, "files of the deleted queue are gone", func() error {
		if _, err := os.Stat(n.nodes["a"].dir.Queue(queues[4])); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("its directory: %w", err)
		}
		return nil
	})
	c, in := n.nodes["a"].consume(t, queues[0])
	in.await(t, "kept")
	c.Close()
}

// What is in snapshots, and what came after them, survives a restart.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "before", quorumq.Unlimited)
	for i, node := range n.nodes {
		poll(t, "the member has the queue", func() error {
			if m := node.host.Member(q); m == nil || m.Group().Stats().CommitIndex < n.leader(q).host.Member(q).Group().Stats().CommitIndex {
				return errWaiting
			}
			return nil
		})
		if err := errors.Join(node.host.Member(q).Group().Snapshot(), node.catalog.Raft().Snapshot()); err != nil {
			t.Fatalf("node %s: %v", i, err)
		}
	}
	n.nodes["a"].publish(t, q, "after", quorumq.Unlimited)
	n.stop("a", "b", "c")
	n.join = nil
	n.start("a", "b", "c")
	_, in := n.nodes["b"].consume(t, q)
	in.await(t, "before", "after")
}

// A node that comes later is made a member of the catalog group and takes its share; it
// can be drained and go, and its consumers' messages return (DC-1).
func TestJoinDrainLeave(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.start("d")
	poll(t, "d is a voter of the catalog group", func() error {
		for _, node := range n.nodes {
			if voters, _, err := node.catalog.Raft().Servers(); err != nil || !slices.Contains(voters, "d") {
				return fmt.Errorf("%q, %w", voters, err)
			}
		}
		return nil
	})
	d := n.nodes["d"]
	q := d.declare(t, "q", 3)
	n.transferTo(t, q, "d")
	_, in := d.consume(t, q)
	n.nodes["a"].publish(t, q, "held", quorumq.Unlimited)
	in.await(t, "held")
	if err := d.unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	if led := d.leadsGroups(); len(led) > 0 {
		t.Errorf("d leads %+v after its drain", led)
	}
	if err := d.Ready(); err == nil || !strings.Contains(err.Error(), "draining") {
		t.Errorf("ready while draining: %v", err)
	}
	n.stop("d")
	poll(t, "the queue suspects d", func() error {
		for _, node := range n.nodes {
			if node.leading(q) == nil {
				continue
			}
			var o quorumq.Overview
			node.host.Member(q).Read(func(state *quorumq.Queue) { o = state.Overview() })
			if o.ConsumersIdle != 0 {
				return fmt.Errorf("it would assign more to d: %+v", o)
			}
			return nil
		}
		return errWaiting
	})
	// The node is back under a new epoch: what its old life held returns at once.
	n.start("d")
	poll(t, "the message is back", func() error {
		if o := n.overview(q); o.Ready != 1 || o.Unsettled != 0 {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
}

// RE-1: nothing is declared where too few nodes run; RE-5: without a majority commands end as unavailable
// within their time.
func TestWithoutMajority(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q := a.declare(t, "q", 3)
	n.stop("b", "c")
	a.cfg.CommandTimeout = 500 * time.Millisecond // nobody reads it meanwhile
	poll(t, "a knows of no leader", func() error {
		_, link := a.mux.Connected("b")
		if _, other := a.mux.Connected("c"); link || other || a.leading(q) != nil || a.catalog.Leader() != "" {
			return errWaiting
		}
		return nil
	})
	_, err := a.operator.DeclareQueue(context.Background(), catalog.DeclareQueue{
		VHost: "/", Name: "p", Type: catalog.QueueQuorum, Durable: true,
	}, 3, false)
	if !errors.Is(err, traffic.ErrUnavailable) || errors.Is(err, traffic.ErrNotLed) {
		t.Errorf("declare: %v", err)
	}
	if _, err := a.leaders.Status(context.Background(), q); !errors.Is(err, traffic.ErrUnavailable) || !strings.Contains(err.Error(), `"q"`) {
		t.Errorf("status: %v", err)
	}
	_, err = a.catalog.Propose(context.Background(), &catalog.DeleteQueue{VHost: "/", Name: "q"})
	if !errors.Is(err, traffic.ErrUnavailable) && !errors.Is(err, traffic.ErrUnknownOutcome) {
		t.Errorf("catalog command: %v", err)
	}
	// Not at once: an election takes a moment.
	poll(t, "a is not ready without the catalog's leader", func() error {
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "no leader") {
			return fmt.Errorf("ready: %w", errors.Join(err, errWaiting))
		}
		return nil
	})
}

// The catalog's leader stops: commands find the next one (RE-6).
func TestCatalogFailover(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	leader := n.catalogLeader().cfg.Node
	n.stop(leader)
	for i, node := range n.nodes {
		node.declare(t, "declared at "+string(i), 3)
	}
	n.start(leader)
	poll(t, "the node that was away has both queues", func() error {
		if v, open := n.nodes[leader].View().QueueCount(), len(n.nodes[leader].host.Members()); v != 2 || open != 2 {
			return fmt.Errorf("%d in its view, %d open", v, open)
		}
		return nil
	})
}
