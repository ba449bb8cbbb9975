package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// votersAre waits until the catalog group's voters are exactly these nodes, as node a sees it.
func (n *testNodes) votersAre(want ...id.NodeID) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("the catalog has the voters %q", want), func() error {
		leader := n.nodes["a"].catalog.Leader()
		if leader == "" || n.nodes[leader] == nil {
			return errWaiting
		}
		voters, others, err := n.nodes[leader].catalog.Raft().Servers()
		slices.Sort(voters)
		if err != nil || !slices.Equal(voters, want) || len(others) > 0 {
			return fmt.Errorf("voters %q, others %q, %w", voters, others, err)
		}
		return nil
	})
}

// RE-3: queues that clients declare and delete meanwhile do not keep a node from being removed.
func TestRemoveNodeWhileQueuesComeAndGo(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	n.start("d")
	n.votersAre("a", "b", "c", "d")
	stay := a.declare(t, "stays", 3)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	var churn sync.WaitGroup
	for i := range 4 {
		churn.Go(func() {
			for k := i; ctx.Err() == nil; k++ {
				at := n.nodes[[]id.NodeID{"a", "b", "c"}[k%3]]
				name := fmt.Sprint("goes", i)
				d := catalog.DeclareQueue{VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true}
				if _, err := at.operator.DeclareQueue(ctx, d, 3, false); err != nil && ctx.Err() == nil {
					t.Errorf("declare %s at %s: %v", name, at.cfg.Node, err)
				}
				if _, err := at.catalog.Propose(ctx, &catalog.DeleteQueue{VHost: "/", Name: name}); err != nil && ctx.Err() == nil {
					t.Errorf("delete %s at %s: %v", name, at.cfg.Node, err)
				}
			}
		})
	}
	err := a.operator.RemoveNode(ctx, "d", nil, func(operation.Progress) {})
	stop()
	churn.Wait()
	if err != nil {
		t.Errorf("removing d: %v", err)
	}
	n.has(stay, "a", "b", "c")
}

// RE-3: a cluster of three grows to five and back, and one of those that were taken out comes
// again: nodes that run are removed by one operation, nothing moves onto one that goes next, and
// nothing that was confirmed is lost.
func TestThreeFiveThreeFour(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	var queues []id.QueueUID
	var confirmed [][]string
	publish := func(when string) {
		t.Helper()
		for i, q := range queues {
			confirmed[i] = append(confirmed[i], a.publishAll(t, q, when, 3)...)
		}
	}
	for i := range 5 {
		queues, confirmed = append(queues, a.declare(t, fmt.Sprint("q", i), 3)), append(confirmed, nil)
	}
	publish("three ")
	n.start("d", "e")
	n.withStores("a", "b", "c", "d", "e")
	n.votersAre("a", "b", "c", "d", "e")
	if err := a.operator.Rebalance(testContext(t), membership.QueueFilter{}, false, nil); err != nil {
		t.Fatal(err)
	}
	alone := a.declare(t, "alone", 1)
	if err := a.operator.ReplaceMember(testContext(t), alone, n.record(alone).Members[0], "e", nil); err != nil && n.record(alone).Members[0] != "e" {
		t.Fatal(err)
	}
	queues, confirmed = append(queues, alone), append(confirmed, nil)
	publish("five ")

	if p, err := a.operator.PlanRemoval("e", []id.NodeID{"a", "b", "c", "d"}); err != nil || len(p.Last) != 1 || p.Last[0].UID != alone || p.Err("e") == nil {
		t.Errorf("planned %+v, %v", p, err)
	}
	for _, goes := range []id.NodeID{"e", "d"} {
		exclude := []id.NodeID{"d"}
		if goes == "d" {
			exclude = nil
		}
		for range 2 { // to repeat it says that there is no such node
			err := a.operator.RemoveNode(testContext(t), goes, exclude, func(operation.Progress) {})
			if _, known := a.View().Node(goes); known || err != nil && !strings.Contains(err.Error(), "is not registered") {
				t.Fatalf("removing %s: %v", goes, err)
			}
		}
		for _, q := range queues {
			if r := n.record(q); slices.Contains(r.Members, goes) || q != alone && len(r.Members) != 3 {
				t.Errorf("queue %s has the members %q after %s went", r.Name, r.Members, goes)
			}
		}
		n.refused(goes, "was taken out of the cluster")
		n.stop(goes)
		publish("without " + string(goes) + " ")
	}
	n.votersAre("a", "b", "c")
	// With no other node free a queue has one member less, and gets it back.
	if err := a.operator.RemoveNode(testContext(t), "c", nil, func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	n.stop("c")
	publish("two ")
	n.wipe("c")
	n.start("c")
	poll(t, "all queues are complete again", func() error {
		for _, q := range queues[:5] {
			if r := n.record(q); len(r.Members) != 3 || r.Change != nil {
				return fmt.Errorf("queue %s has the members %q", r.Name, r.Members)
			}
		}
		return nil
	})
	n.votersAre("a", "b", "c")

	n.launch("d") // with what it had stored
	n.refused("d", "start it with an empty data directory")
	n.stop("d")
	n.wipe("d")
	n.start("d")
	n.votersAre("a", "b", "c", "d")
	if err := a.operator.Grow(testContext(t), "d", membership.QueueFilter{Name: "q0"}, nil); err != nil {
		t.Fatal(err)
	}
	publish("four ")
	for i, q := range queues {
		_, in := n.nodes["d"].consume(t, q)
		in.await(t, confirmed[i]...)
	}
}

// RE-3: nobody tries for ever to reach a node that was taken out and has gone, whichever comes first. One that comes back
// with an empty directory is met again.
func TestRemovedNodeIsNoPeer(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	n.start("d")
	n.withStores("a", "b", "c", "d")
	a := n.nodes["a"]
	met := func(want bool) {
		t.Helper()
		for _, i := range []id.NodeID{"a", "b", "c"} {
			poll(t, fmt.Sprintf("d is a peer of %s: %v", i, want), func() error {
				peers := n.nodes[i].TransportStats().Peers
				if slices.ContainsFunc(peers, func(p transport.PeerStats) bool { return p.Node == "d" && (p.Up || !want) }) != want {
					return fmt.Errorf("its peers are %+v", peers)
				}
				return nil
			})
		}
	}
	n.votersAre("a", "b", "c", "d")
	met(true)
	if err := a.operator.RemoveNode(testContext(t), "d", nil, func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	n.stop("d")
	met(false)

	n.wipe("d")
	n.start("d")
	n.votersAre("a", "b", "c", "d")
	met(true)
	n.stop("d")
	poll(t, "d is forgotten", func() error { return a.operator.ForgetNode(testContext(t), "d", true, nil) })
	n.votersAre("a", "b", "c")
	met(false)
}

// A node that is asked to remove itself names one that can do it: it is there, and at best does not drain.
func TestOwnRemoval(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	b := n.nodes["b"]
	says := func(when, want string) {
		t.Helper()
		poll(t, when, func() error {
			err := b.operator.RemoveNode(testContext(t), "b", nil, func(operation.Progress) {})
			if err == nil {
				t.Fatal("a node has removed itself")
			}
			if !strings.Contains(err.Error(), want) {
				return err
			}
			return nil
		})
	}
	says("all are there", `ask another node, such as "a"`)
	if err := n.nodes["a"].unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	says("a drains", `ask another node, such as "c"`)
	n.stop("c")
	says("only one that drains is there", `ask another node, such as "a"`)
	n.stop("a")
	says("none is there", "is connected to no other node")
	if b.unloader.Draining() {
		t.Error("it drains although it was refused")
	}
}

// RE-3: a node is not removed if those that stay would be no majority.
func TestRemovalNeedsMajority(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	n.stop("b")
	a := n.nodes["a"]
	poll(t, "b is away", func() error {
		if _, up := a.mux.Connected("b"); up {
			return errWaiting
		}
		return nil
	})
	if err := a.operator.RemoveNode(testContext(t), "c", nil, func(operation.Progress) {}); err == nil || !strings.Contains(err.Error(), "only 1 of 2 nodes would be there") {
		t.Errorf("removed: %v", err)
	}
	if n.nodes["c"].unloader.Draining() {
		t.Error("it drains although it is not removed")
	}
	if err := a.operator.RemoveNode(testContext(t), "z", nil, func(operation.Progress) {}); err == nil || errors.Is(err, traffic.ErrUnavailable) {
		t.Errorf("a node that nobody knows is removed: %v", err)
	}
}
