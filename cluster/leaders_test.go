package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
)

const leaderQueues = 30

// declared declares queues on a node.
func (n *testNode) declared(t *testing.T) (queues []id.QueueUID) {
	t.Helper()
	for i := range leaderQueues {
		queues = append(queues, n.declare(t, fmt.Sprint("q", i), 3))
	}
	return queues
}

// piledUp starts three nodes with queues that "a" leads, all of them.
func piledUp(t *testing.T) (*testNodes, []id.QueueUID) {
	t.Helper()
	n := newTestNodes(t, func(c *Config) {
		steady(c)
		c.Reconcile.LeadersDelay = time.Hour
	})
	n.start("a", "b", "c")
	queues := n.nodes["a"].declared(t)
	for _, q := range queues {
		if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "a"); err != nil {
			t.Fatal(err)
		}
	}
	n.lead(map[id.NodeID]int{"a": leaderQueues})
	return n, queues
}

// leaders returns how many queues each node leads.
func (n *testNodes) leaders() map[id.NodeID]int {
	led := map[id.NodeID]int{}
	for name, node := range n.nodes {
		for _, q := range node.host.Members() {
			if q.Led() != nil {
				led[name]++
			}
		}
	}
	return led
}

// lead waits until nodes lead so many queues, and no other does.
func (n *testNodes) lead(want map[id.NodeID]int) { n.leadNearly(want, 0) }

// leadNearly is lead, give or take so many: an election on a busy machine may come between, and a few are not worth another
// operation.
func (n *testNodes) leadNearly(want map[id.NodeID]int, slack int) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("nodes lead %v", want), func() error {
		led := n.leaders()
		for name := range n.nodes {
			if led[name] < want[name]-slack || led[name] > want[name]+slack {
				return fmt.Errorf("they lead %v", led)
			}
		}
		return nil
	})
}

// spreads returns the operations that spread leaders, and by how many queues in all.
func (n *testNodes) spreads() (ops []operation.Operation, moved int) {
	for _, node := range n.nodes {
		for _, op := range node.operations.List() {
			if op.Kind == membership.KindSpreadLeaders {
				ops = append(ops, op)
				moved += int(op.Done)
			}
		}
	}
	return ops, moved
}

// catalogLeader waits for the node that leads the catalog.
func (n *testNodes) catalogLeader() *testNode {
	n.t.Helper()
	var found *testNode
	poll(n.t, "the catalog has a leader", func() error {
		for _, node := range n.nodes {
			if at := n.nodes[node.catalog.Leader()]; at != nil && at.catalog.Leader() == at.cfg.Node {
				found = at
				return nil
			}
		}
		return errWaiting
	})
	return found
}

// RE-10: leaders that have piled up on one node while others restarted are spread by themselves
// when all is calm, each queue once; what is even stays.
func TestLeadersSpread(t *testing.T) {
	t.Parallel()
	n, queues := piledUp(t)
	n.edit = func(c *Config) {
		steady(c)
		c.Reconcile.LeadersDelay = 500 * time.Millisecond
	}
	for _, name := range []id.NodeID{"b", "c"} {
		n.stop(name)
		n.start(name)
	}
	if n.catalogLeader() == n.nodes["a"] { // which was not started anew, and waits for an hour
		if err := n.nodes["a"].catalog.Raft().TransferLeadership(testContext(t), "b"); err != nil {
			t.Fatal(err)
		}
	}
	n.leadNearly(map[id.NodeID]int{"a": leaderQueues / 3, "b": leaderQueues / 3, "c": leaderQueues / 3}, 1)
	poll(t, "the operation has ended", func() error {
		ops, _ := n.spreads()
		for _, op := range ops {
			if op.State == operation.Running {
				return fmt.Errorf("%+v", op)
			}
		}
		return nil
	})
	ops, moved := n.spreads()
	if len(ops) == 0 || moved < leaderQueues*2/3-1 || moved > leaderQueues {
		t.Errorf("%d operations moved %d leaders, want at least %d: %+v", len(ops), moved, leaderQueues*2/3-1, ops)
	}
	at := n.catalogLeader()
	if at.EventCounts()[event.LeadersSpread] == 0 || at.reconciler.LeadersSpread() == 0 {
		t.Errorf("events %v, %d counted", at.EventCounts(), at.reconciler.LeadersSpread())
	}
	// However often it looks again: nothing moves.
	for range 10 {
		at.reconciler.SpreadLeaders()
	}
	if again, _ := n.spreads(); len(again) != len(ops) {
		t.Errorf("even leaders are spread again: %+v", again[len(ops):])
	}
	for _, q := range queues {
		n.nodes["a"].publish(t, q, "m", 1)
	}
}

// RE-10: a node that drains gets no leaders.
func TestLeadersNotToDraining(t *testing.T) {
	t.Parallel()
	n, _ := piledUp(t)
	if _, err := n.nodes["c"].unloader.StartDrain(testContext(t), "", 0); err != nil {
		t.Fatal(err)
	}
	poll(t, "the drained node does not lead the catalog", func() error {
		if at := n.catalogLeader(); at.cfg.Node == "c" {
			return errWaiting
		}
		return nil
	})
	n.catalogLeader().reconciler.SpreadLeaders()
	n.lead(map[id.NodeID]int{"a": leaderQueues / 2, "b": leaderQueues / 2})
}

// RE-10: an operator's cancel ends it, and it does not begin again while nodes stay as they are.
func TestLeadersSpreadCancelled(t *testing.T) {
	t.Parallel()
	n, _ := piledUp(t)
	at := n.catalogLeader()
	at.reconciler.SpreadLeaders()
	ops, _ := n.spreads()
	if len(ops) != 1 || ops[0].Target != "all queues" {
		t.Fatalf("operations %+v", ops)
	}
	poll(t, "a leader was moved", func() error {
		if _, moved := n.spreads(); moved == 0 {
			return errWaiting
		}
		return nil
	})
	if _, err := at.jobs.Cancel(testContext(t), ops[0].ID); err != nil {
		t.Fatal(err)
	}
	poll(t, "it is cancelled", func() error {
		if ops, _ = n.spreads(); ops[0].State != operation.Cancelled {
			return fmt.Errorf("%+v", ops)
		}
		return nil
	})
	if ops[0].Total != leaderQueues*2/3 || ops[0].Done == ops[0].Total {
		t.Errorf("%d of %d were moved, want some of %d", ops[0].Done, ops[0].Total, leaderQueues*2/3)
	}
}

// RE-10: what an operator has switched off is left alone, also when members move.
func TestLeadersKept(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		quick(c)
		steady(c)
		c.Expect = 2
		c.Reconcile.LeadersDelay, c.Reconcile.KeepLeaders = c.Reconcile.Delay, true
	})
	n.start("a", "b")
	queues := n.nodes["a"].declared(t)
	n.start("c")
	for _, q := range queues {
		n.has(q, "a", "b", "c") // this is looked at later than leaders
	}
	if ops, _ := n.spreads(); len(ops) != 0 {
		t.Errorf("leaders were spread: %+v", ops)
	}
	n.lead(map[id.NodeID]int{"a": leaderQueues})
}

// RE-10: queues that hibernate are neither moved nor woken.
func TestLeadersOfHibernatingStay(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		steady(c)
		c.HibernateAfter = 200 * time.Millisecond
	})
	n.start("a", "b", "c")
	queues := n.nodes["a"].declared(t)
	poll(t, "all hibernate", func() error {
		for name, node := range n.nodes {
			if open, asleep := node.Members(); open > 0 || asleep != len(queues) {
				return fmt.Errorf("%s has %d members open, %d asleep", name, open, asleep)
			}
		}
		return nil
	})
	at := n.catalogLeader()
	at.reconciler.SpreadLeaders()
	if err := at.reconciler.EaseLeaders(testContext(t), func(operation.Progress) {}); err != nil {
		t.Error(err)
	}
	if ops, _ := n.spreads(); len(ops) != 0 || at.reconciler.LeadersSpread() != 0 {
		t.Errorf("leaders were spread: %+v", ops)
	}
	for name, node := range n.nodes {
		if open, _ := node.Members(); open > 0 {
			t.Errorf("%s has woken %d members", name, open)
		}
	}
}

// RE-10: spreading breaks off when a node goes.
func TestLeadersSpreadBreaksOff(t *testing.T) {
	t.Parallel()
	n, _ := piledUp(t)
	at := n.catalogLeader()
	gone := slices.DeleteFunc([]id.NodeID{"b", "c"}, func(x id.NodeID) bool { return x == at.cfg.Node })[0]
	var last operation.Progress
	stopped := errors.New("it was not broken off")
	err := at.reconciler.EaseLeaders(testContext(t), func(p operation.Progress) {
		if p.Done == 3 && n.nodes[gone] != nil {
			n.stop(gone)
			poll(t, "the link is down", func() error {
				if _, up := at.mux.Connected(gone); up {
					return errWaiting
				}
				return nil
			})
		}
		if last = p; p.Done > 5 {
			panic(stopped)
		}
	})
	if err != nil || last.Detail == "" || last.Done >= last.Total {
		t.Errorf("%+v, %v", last, err)
	}
}

// RE-3: leaders of queues that hibernate are spread too when somebody asks for it.
func TestRebalanceSleepers(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		steady(c)
		c.HibernateAfter, c.SuspectAfter = 50*time.Millisecond, 10*time.Second
		c.Reconcile.LeadersDelay = time.Hour
	})
	n.start("a", "b", "c")
	const queues = 6
	var all []id.QueueUID
	for i := range queues {
		q := n.nodes["a"].declare(t, fmt.Sprint("q", i), 3)
		if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "a"); err != nil {
			t.Fatal(err)
		}
		all = append(all, q)
	}
	led := func() map[id.NodeID]int {
		count := map[id.NodeID]int{}
		for _, q := range all {
			n.sleeps(q)
			count[n.lastLed(q)]++
		}
		return count
	}
	if before := led(); before["a"] != queues {
		t.Fatalf("nodes led %v of the queues that hibernate", before)
	}
	if err := n.nodes["b"].operator.Rebalance(testContext(t), membership.QueueFilter{}, true, func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	if after := led(); after["a"] != queues/3 || after["b"] != queues/3 || after["c"] != queues/3 {
		t.Errorf("nodes led %v of the queues that hibernate", after)
	}
}
