package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
)

// A drain that is undone ends at once, however much is left.
func TestDrainUndone(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	n.nodes["a"].declare(t, "q", 1) // nobody can take it over
	u := n.nodes["a"].unloader
	err := u.Drain(testContext(t), func(operation.Progress) {
		if err := u.Undrain(testContext(t), ""); err != nil {
			t.Error(err)
		}
	})
	if err == nil || err.Error() != "the drain was undone" || u.Draining() {
		t.Errorf("%v; it drains: %t", err, u.Draining())
	}
}

// RE-3: others know at once that a node drains, and place no member of a new queue there while there are enough of them.
func TestDrainedGetsNoMembers(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	a, c := n.nodes["a"], n.nodes["c"]
	knows := func(want bool) {
		t.Helper()
		poll(t, fmt.Sprintf("a knows whether c drains: %t", want), func() error {
			if a.mux.Drains("c") != want || c.mux.Drains("c") != want {
				return errWaiting
			}
			return nil
		})
	}
	members := func(at *testNode, name string, size int) []id.NodeID {
		t.Helper()
		q := at.declare(t, name, size)
		poll(t, "the queue is seen", func() error {
			if _, ok := a.View().QueueByUID(q); !ok {
				return errWaiting
			}
			return nil
		})
		return n.record(q).Members
	}
	knows(false)
	a.declare(t, "one", 2) // c has the fewest members
	if err := c.unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	knows(true)
	for i, at := range []*testNode{a, c} {
		if m := members(at, fmt.Sprint("two", i), 2); slices.Contains(m, "c") {
			t.Errorf("declared at %s while c drains: members %q", at.cfg.Node, m)
		}
	}
	if m := members(a, "three", 3); len(m) != 3 {
		t.Errorf("it needs all three: members %q", m)
	}
	if err := c.unloader.Undrain(testContext(t), ""); err != nil {
		t.Fatal(err)
	}
	knows(false)
	if m := members(a, "again", 2); !slices.Contains(m, "c") {
		t.Errorf("declared when c drains no longer: members %q", m)
	}
}

// A drain that is refused because too much runs on the node leaves the node as it was: it leads, takes leadership
// over, and takes new work. One that is drained stays so.
func TestDrainRefused(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	for i := range operation.DefaultMaxRunning {
		_, err := a.operations.Start("test", fmt.Sprint(i), func(ctx context.Context, _ func(operation.Progress)) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, asked := range []*testNode{a, n.nodes["b"]} {
		_, err := asked.unloader.StartDrain(testContext(t), "a", 0)
		if err == nil || !strings.Contains(err.Error(), "operations run on node \"a\", which is the limit") {
			t.Errorf("asked of %s: %v", asked.cfg.Node, err)
		}
		if a.unloader.Draining() || a.mux.Drains("a") {
			t.Errorf("asked of %s: the node drains although that was refused", asked.cfg.Node)
		}
	}
	if err := a.unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.unloader.StartDrain(testContext(t), "", 0); err == nil || !a.unloader.Draining() {
		t.Errorf("a drained node: %v, it drains: %t", err, a.unloader.Draining())
	}
}

// Nodes that drain together do not hand groups to each other: the one that stays gets
// them all, and where none stays they give up instead of going round in circles.
func TestDrainTogether(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	const queues = 6
	for i := range queues {
		n.nodes["a"].declare(t, fmt.Sprint("q", i), 3)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	drain := func(ids ...id.NodeID) map[id.NodeID]error {
		var mu sync.Mutex
		var all sync.WaitGroup
		errs := map[id.NodeID]error{}
		for _, i := range ids {
			all.Go(func() {
				err := n.nodes[i].unloader.Drain(ctx, func(operation.Progress) {})
				mu.Lock()
				defer mu.Unlock()
				errs[i] = err
			})
		}
		all.Wait()
		return errs
	}
	for i, err := range drain("a", "b") {
		if err != nil {
			t.Errorf("%s: %v", i, err)
		}
	}
	poll(t, "c knows that it leads all", func() error {
		if led := n.nodes["c"].leadsGroups(); len(led) != queues+1 {
			return fmt.Errorf("%d groups, want %d and the catalog", len(led), queues)
		}
		return nil
	})
	if err := drain("c")["c"]; err == nil || ctx.Err() != nil {
		t.Errorf("the last one: %v, %v, want an error before the time is over", err, ctx.Err())
	}
	if led := n.nodes["c"].leadsGroups(); len(led) != queues+1 {
		t.Errorf("c leads %d groups after its drain, want %d and the catalog", len(led), queues)
	}
}

// A drained node takes no leadership that is handed over: a node that drains too may have asked before. It does again
// when the drain is undone.
func TestDrainedTakesNothing(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	drained := n.nodes["b"]
	if err := drained.unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	leader := n.leader(q)
	for _, hand := range []func(context.Context, id.NodeID) error{
		leader.host.Member(q).Group().TransferLeadership, n.catalogLeader().catalog.Raft().TransferLeadership,
	} {
		if err := hand(testContext(t), "b"); err == nil || !strings.Contains(err.Error(), "takes over no leadership") {
			t.Errorf("a drained node was handed a group: %v", err)
		}
	}
	for what, hand := range map[string]func() error{ // on a busy machine an election may take longer than a hand-over waits
		"queue":   func() error { return n.leader(q).host.Member(q).Group().TransferLeadership(testContext(t), "") },
		"catalog": func() error { return n.catalogLeader().catalog.Raft().TransferLeadership(testContext(t), "") },
	} {
		poll(t, "a member that is not drained takes over: "+what, hand)
	}
	if led := drained.leadsGroups(); len(led) > 0 {
		t.Errorf("the drained node leads %v", led)
	}
	if err := drained.unloader.Undrain(testContext(t), ""); err != nil {
		t.Fatal(err)
	}
	poll(t, "b leads", func() error { return n.leader(q).host.Member(q).Group().TransferLeadership(testContext(t), "b") })
}

// A node whose disk is low hands its leaders to a member that takes them, past one that is drained.
func TestHandOverPastDrained(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	if err := n.nodes["b"].unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	from := n.leader(q)
	to := n.nodes["a"]
	if from == to {
		to = n.nodes["c"]
	}
	poll(t, "the one that is not drained leads", func() error {
		from.unloader.HandOver(testContext(t))
		if led := to.leadsGroups(); !slices.Contains(led, q.String()) {
			return fmt.Errorf("it leads %v", led)
		}
		return nil
	})
}

// A node drains while a member joins its queue, and one that leads is taken out: its
// leadership goes, and the change is finished by the next leader.
func TestDrainWithinChange(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.start("d")
	q := n.nodes["a"].declare(t, "q", 3)
	r, _ := n.nodes["a"].View().QueueByUID(q)
	spare := slices.DeleteFunc([]id.NodeID{"b", "c", "d"}, func(i id.NodeID) bool { return slices.Contains(r.Members, i) })[0]
	n.stop(spare) // so that the change waits
	begin := &catalog.BeginMemberChange{UID: q, Join: spare, Leave: "a"}
	if _, err := n.nodes["a"].catalog.Propose(testContext(t), begin); err != nil {
		t.Fatal(err)
	}
	poll(t, "the change waits", func() error {
		if at, err := n.nodes["a"].host.Member(q).Group().Configuration(); err != nil || !slices.Contains(at.Nonvoters, spare) {
			return fmt.Errorf("%+v, %w", at, err)
		}
		return nil
	})
	if err := n.nodes["a"].unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	n.start(spare)
	n.has(q, slices.Sorted(slices.Values(append(slices.Clone(r.Members[1:]), spare)))...)
}

// leadsGroups names the groups that a node leads.
func (n *testNode) leadsGroups() (all []string) {
	for _, q := range n.host.Members() {
		if q.Leads() {
			all = append(all, q.UID().String())
		}
	}
	if n.catalog.Leads() {
		all = append(all, "the catalog")
	}
	return all
}
