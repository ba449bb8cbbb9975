package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// quick lets members move soon after nodes come and go.
func quick(c *Config) {
	c.Reconcile.Delay = 100 * time.Millisecond
}

// RE-1, RE-4: queues that were declared while there were two nodes get a third member when
// the third node comes; a size that an operator has chosen stays.
func TestQueuesBecomeComplete(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		quick(c)
		c.Expect = 2
	})
	n.start("a", "b")
	var queues []id.QueueUID
	for i := range 6 {
		q := n.nodes["a"].declare(t, fmt.Sprint("q", i), 3)
		n.nodes["b"].publish(t, q, "kept", quorumq.Unlimited)
		queues = append(queues, q)
	}
	small := n.nodes["a"].declare(t, "small", 3)
	if err := n.nodes["a"].operator.RemoveMember(testContext(t), small, "b", nil); err != nil {
		t.Fatal(err)
	}
	n.start("c")
	for _, q := range queues {
		n.has(q, "a", "b", "c")
	}
	n.has(small, "a")
	poll(t, "nothing goes on", func() error {
		for r := range n.nodes["b"].View().Queues() {
			want := 3
			if r.UID == small {
				want = 1
			}
			if r.Change != nil || len(r.Members) != want {
				return fmt.Errorf("queue %s: members are %q, want %d; change %v", r.Name, r.Members, want, r.Change)
			}
		}
		return nil
	})
	n.stop("a")
	for _, q := range queues {
		if seen := n.nodes["c"].drained(t, q); seen["kept"] != 1 {
			t.Errorf("queue %s has %v", q, seen)
		}
	}
}

// RE-4: a queue that has lost a member gets another one although no node came or went, for example when a node dies while
// its member is rebuilt.
func TestShortQueueBecomesComplete(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		quick(c)
		c.Expect = 2
	})
	n.start("a", "b")
	q := n.nodes["a"].declare(t, "q", 3)
	n.start("c")
	n.has(q, "a", "b", "c")
	poll(t, "what there is to do because of c is done", func() error {
		if r := n.record(q); r.Change != nil {
			return fmt.Errorf("%s", r.Change)
		}
		return nil
	})
	leaves, err := n.nodes["a"].catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Leave: "c"})
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "c leaves and comes back", func() error {
		r, m := n.record(q), n.nodes["c"].host.Member(q)
		if r.Change != nil || len(r.Members) < 3 || m == nil || m.Joined() <= leaves.Index {
			return fmt.Errorf("%+v, open on c: %v", r, m != nil)
		}
		return nil
	})
}

// RE-4: others take the place of a node that is lost for good, while confirms continue; then it can be forgotten, and
// its vote in the catalog goes.
func TestLostNodeIsReplaced(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		quick(c)
		c.Reconcile.AutoRemove = time.Second
	})
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.start("d")
	l := n.nodes["d"].load(t, q)
	l.goesOn()
	n.stop("b")
	n.has(q, "a", "c", "d")
	l.goesOn()
	l.check(n.nodes["d"], q)
	if err := n.nodes["a"].operator.ForgetNode(testContext(t), "d", false, nil); err == nil || !strings.Contains(err.Error(), "runs") {
		t.Errorf("forgetting a node that runs: %v", err)
	}
	if err := n.nodes["d"].operator.ForgetNode(testContext(t), "b", false, nil); err != nil {
		t.Fatal(err)
	}
	poll(t, "the catalog group is without b", func() error {
		for i, node := range n.nodes {
			at, err := node.catalog.Raft().Configuration()
			if err != nil || slices.Contains(slices.Concat(at.Voters, at.Nonvoters), "b") {
				return fmt.Errorf("node %s: %+v, %w", i, at, err)
			}
		}
		return nil
	})
}

// An operator replaces a dead node by one with a new id, as the guard of ForgetNode says.
func TestForgetNode(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Delay = 100 * time.Millisecond })
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "kept", quorumq.Unlimited)
	n.stop("c")
	at := n.nodes["b"]
	var refused *catalog.Error
	poll(t, "forgetting a member is refused", func() error {
		if err := at.operator.ForgetNode(testContext(t), "c", false, nil); !errors.As(err, &refused) {
			return fmt.Errorf("%w", err) // its connection may be up still
		}
		return nil
	})
	if err := at.operator.ForgetNode(testContext(t), "c", true, nil); err == nil || !strings.Contains(err.Error(), `queue "q"`) {
		t.Errorf("with no node to replace it: %v", err)
	}
	n.start("d")
	var last operation.Progress
	if err := at.operator.ForgetNode(testContext(t), "c", true, func(p operation.Progress) { last = p }); err != nil {
		t.Fatal(err)
	}
	n.has(q, "a", "b", "d")
	if last.Phase != membership.PhaseForget {
		t.Errorf("last progress %+v", last)
	}
	if _, known := at.View().Node("c"); known {
		t.Error("c is still registered")
	}
	if seen := n.nodes["d"].drained(t, q); seen["kept"] != 1 {
		t.Errorf("%v", seen)
	}
}

// joinedAnew waits until a node's member of a queue was rebuilt, and the node has lost none.
func (n *testNodes) joinedAnew(q id.QueueUID, i id.NodeID) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("%s has joined anew", i), func() error {
		m := n.nodes[i].host.Member(q)
		if m == nil || m.Joined() == 0 || len(n.nodes[i].host.LostMembers()) > 0 {
			return errWaiting
		}
		return nil
	})
}

// A member whose log is damaged is rebuilt from the others, by itself, and serves.
func TestLostMemberIsRebuilt(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "kept by three", quorumq.Unlimited)
	n.caughtUp(q, "b")
	n.stop("b")
	n.nodes["a"].publish(t, q, "by two", quorumq.Unlimited)
	flip(t, n.segments("b")[0], "kept by three")
	n.start("b")
	n.joinedAnew(q, "b")
	n.has(q, "a", "b", "c")
	n.caughtUp(q, "b")
	if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "b"); err != nil {
		t.Fatal(err)
	}
	n.stop("c") // b counts again
	if seen := n.nodes["b"].drained(t, q); len(seen) != 2 {
		t.Errorf("%v", seen)
	}
}

// A member that is to be taken out waits for a majority of the others, and one of these is lost and waits to be
// rebuilt. Only one change is carried out at a time, so the first is taken back, and who asked for it learns that.
func TestLostMemberGoesFirst(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(ctx context.Context, o *membership.Operator, q id.QueueUID, report func(operation.Progress)) error{
		"another is built anew": func(ctx context.Context, o *membership.Operator, q id.QueueUID, report func(operation.Progress)) error {
			return o.ReplaceMember(ctx, q, "b", "b", report)
		},
		"another leaves": func(ctx context.Context, o *membership.Operator, q id.QueueUID, report func(operation.Progress)) error {
			return o.RemoveMember(ctx, q, "b", report)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTestNodes(t, nil)
			n.start("a", "b", "c")
			q := n.nodes["a"].declare(t, "q", 3)
			n.nodes["a"].publish(t, q, "kept by three", quorumq.Unlimited)
			n.caughtUp(q, "c")
			n.stop("c")
			waits, ended := make(chan struct{}), make(chan error, 1)
			once := sync.OnceFunc(func() { close(waits) })
			go func() {
				ended <- ask(testContext(t), n.nodes["a"].operator, q, func(p operation.Progress) {
					if strings.Contains(p.Detail, "cannot leave") {
						once()
					}
				})
			}()
			select {
			case <-waits:
			case err := <-ended:
				t.Fatalf("it does not wait: %v", err)
			}
			flip(t, n.segments("c")[0], "kept by three")
			n.start("c")
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "taken back") {
				t.Errorf("the change that waited ended with %v", err)
			}
			n.joinedAnew(q, "c")
			n.has(q, "a", "b", "c")
			n.caughtUp(q, "c")
		})
	}
}

// A member with nothing left of a group that was changed since may not begin it again.
func TestForgottenMember(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Disabled = true })
	n.start("a", "b", "c")
	n.start("d")
	q := n.nodes["a"].declare(t, "q", 2)
	r, _ := n.nodes["a"].View().QueueByUID(q)
	other := r.Members[1]
	i := slices.IndexFunc([]id.NodeID{"b", "c", "d"}, func(i id.NodeID) bool { return i != other })
	joiner := []id.NodeID{"b", "c", "d"}[i]
	if err := n.nodes["a"].operator.AddMember(testContext(t), q, joiner, nil); err != nil {
		t.Fatal(err)
	}
	n.nodes["a"].publish(t, q, "kept", quorumq.Unlimited)
	for _, at := range []id.NodeID{other, joiner} {
		n.stop(at)
		for _, part := range []string{datadir.LogDir, datadir.QueuesDir} {
			if err := os.RemoveAll(filepath.Join(n.dir, string(at), part)); err != nil {
				t.Fatal(err)
			}
		}
		n.start(at)
		if got := n.nodes[at].host.LostMembers(); !slices.Equal(got, []id.QueueUID{q}) {
			t.Errorf("node %s: lost members are %v", at, got)
		}
		if n.nodes[at].host.Member(q) != nil {
			t.Errorf("node %s has opened its member", at)
		}
	}
}

// What is asked for while a majority is missing waits with a reason, and can be cancelled.
func TestChangeWaits(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.start("d")
	q := n.nodes["a"].declare(t, "q", 3)
	r, _ := n.nodes["a"].View().QueueByUID(q)
	others := slices.DeleteFunc([]id.NodeID{"b", "c", "d"}, func(i id.NodeID) bool { return !slices.Contains(r.Members, i) })
	spare := slices.DeleteFunc([]id.NodeID{"b", "c", "d"}, func(i id.NodeID) bool { return slices.Contains(r.Members, i) })[0]
	n.stop(others[1])
	a := n.nodes["a"]
	asked := func(want string, change func(ctx context.Context, report func(operation.Progress)) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		err := change(ctx, func(p operation.Progress) {
			if p.Phase == membership.PhaseWait && strings.Contains(p.Detail, want) {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", want, err)
		}
		poll(t, "it is taken back", func() error {
			if r, _ := a.View().QueueByUID(q); r.Change != nil || len(r.Members) != 3 {
				return fmt.Errorf("%q, %v", r.Members, r.Change)
			}
			return nil
		})
	}
	asked("a majority must be there", func(ctx context.Context, report func(operation.Progress)) error {
		return a.operator.RemoveMember(ctx, q, others[0], report)
	})
	n.stop(spare)
	n.nodes["a"].publish(t, q, "goes on", quorumq.Unlimited)
	n.start(spare)
	// The dead one may go.
	if err := a.operator.RemoveMember(testContext(t), q, others[1], nil); err != nil {
		t.Fatal(err)
	}
	if err := a.operator.AddMember(testContext(t), q, spare, nil); err != nil {
		t.Fatal(err)
	}
	n.has(q, append([]id.NodeID{"a"}, slices.Sorted(slices.Values([]id.NodeID{others[0], spare}))...)...)
	// It comes back, and deletes what it has.
	n.start(others[1])
	poll(t, "nothing is left", func() error {
		if n.nodes[others[1]].dir.HasQueue(q) {
			return errWaiting
		}
		return nil
	})
}

// Grow, Rebalance and Shrink move many queues, and say how far they are.
func TestGrowRebalanceShrink(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	var queues []id.QueueUID
	for i := range 9 {
		queues = append(queues, n.nodes["a"].declare(t, fmt.Sprint("q", i), 3))
	}
	other := n.nodes["a"].declare(t, "other", 1)
	n.start("d")
	d := n.nodes["d"]
	f := membership.QueueFilter{VHost: "/", Name: "q*"}
	for _, q := range queues {
		n.leader(q)
	}
	if err := d.operator.Rebalance(testContext(t), f, false, nil); err != nil {
		t.Fatal(err)
	}
	poll(t, "members and leaders are spread", func() error {
		holds, leads := map[id.NodeID]int{}, map[id.NodeID]int{"a": 1} // the other queue
		for _, q := range queues {
			r, _ := d.View().QueueByUID(q)
			for _, m := range r.Members {
				holds[m]++
			}
			leads[n.leader(q).cfg.Node]++
		}
		for i := range n.nodes {
			if holds[i] < 6 || holds[i] > 7 || leads[i] < 2 || leads[i] > 3 {
				return fmt.Errorf("members %v, leaders %v", holds, leads)
			}
		}
		return nil
	})
	var last operation.Progress
	report := func(p operation.Progress) { last = p }
	if err := d.operator.Grow(testContext(t), "d", f, report); err != nil {
		t.Fatal(err)
	}
	if last.Phase != membership.PhaseMove || last.Done != last.Total || last.Total == 0 || last.Unit != "queues" {
		t.Errorf("%+v", last)
	}
	for _, q := range queues {
		if r, _ := d.View().QueueByUID(q); !slices.Contains(r.Members, "d") {
			t.Errorf("queue %s: %q", q, r.Members)
		}
	}
	if err := d.operator.Shrink(testContext(t), "d", membership.QueueFilter{}, false, nil, report); err != nil {
		t.Fatal(err)
	}
	if err := d.operator.Shrink(testContext(t), "a", membership.QueueFilter{}, true, nil, report); err != nil {
		t.Fatal(err)
	}
	for r := range d.View().Queues() {
		if slices.Contains(r.Members, "a") || r.UID == other && len(r.Members) != 1 || r.UID != other && len(r.Members) < 2 {
			t.Errorf("queue %s: %q", r.Name, r.Members)
		}
	}
	if err := d.operator.Grow(testContext(t), "z", membership.QueueFilter{Name: "["}, nil); err == nil || !strings.Contains(err.Error(), `"z"`) || !strings.Contains(err.Error(), `"["`) {
		t.Errorf("%v", err)
	}
}
