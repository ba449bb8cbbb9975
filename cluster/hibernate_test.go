package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// newSleepyNodes starts nodes whose queues hibernate soon. They suspect a node after so long: what loses its leader wakes.
func newSleepyNodes(t testing.TB, suspectAfter time.Duration) *testNodes {
	n := newTestNodes(t, func(c *Config) {
		c.HibernateAfter = 50 * time.Millisecond
		c.SuspectAfter = suspectAfter
	})
	n.start("a", "b", "c")
	return n
}

// sleeps waits until the members of a queue hibernate on the nodes that run.
func (n *testNodes) sleeps(q id.QueueUID) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("queue %s hibernates", q), func() error {
		for i, node := range n.nodes {
			if _, sleeps := node.asleep(q); !sleeps || node.host.Member(q) != nil {
				return fmt.Errorf("its member on node %s is awake", i)
			}
		}
		return nil
	})
}

// asleep reports whether a node's member of a queue hibernates, and its figures on the node that led
// it last.
func (n *testNode) asleep(q id.QueueUID) (kept *quorumq.Overview, sleeps bool) {
	status, kept := n.host.Kept(q)
	return kept, status != nil
}

// lastLed returns the node that led a hibernating queue last.
func (n *testNodes) lastLed(q id.QueueUID) id.NodeID {
	n.t.Helper()
	for i, node := range n.nodes {
		if kept, _ := node.asleep(q); kept != nil {
			return i
		}
	}
	n.t.Fatal("no node has the figures of the queue")
	return ""
}

// A queue at rest is closed on all nodes, and there for whoever asks, on any node.
func TestHibernate(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	sent := 0
	var seen raftfsm.Progress
	for _, i := range []id.NodeID{"a", "b", "c"} {
		n.sleeps(q)
		n.nodes[i].publish(t, q, fmt.Sprint("by ", i), quorumq.Unlimited)
		sent++
		n.sleeps(q)
		s, err := n.nodes[i].leaders.Figures(testContext(t), q)
		if err != nil || s.Overview.Ready != uint64(sent) || !s.Hibernated {
			t.Fatalf("figures %+v, hibernated %v, %v", s.Overview, s.Hibernated, err)
		}
		if _, sleeps := n.nodes[i].asleep(q); !sleeps {
			t.Error("a look at the figures woke the queue")
		}
		if p := maps.Collect(n.nodes[i].Positions())[q]; p.Term <= seen.Term || p.Commit <= seen.Commit {
			t.Errorf("the log of a member is at %+v, and was at %+v before the queue was used", p, seen)
		} else {
			seen = p
		}
	}
	if o := n.overview(q); o.Ready != uint64(sent) {
		t.Errorf("overview %+v", o)
	}
	n.sleeps(q)
	consumer, in := n.nodes["b"].consume(t, q)
	in.await(t, "by a", "by b", "by c")
	awake := func() error {
		for i, node := range n.nodes {
			if _, sleeps := node.asleep(q); sleeps {
				return fmt.Errorf("the member on node %s hibernates although the queue has a consumer", i)
			}
		}
		return nil
	}
	poll(t, "all members are awake", awake)
	n.sleeps(n.nodes["a"].declare(t, "another", 3)) // as q would
	if err := awake(); err != nil {
		t.Error(err)
	}
	consumer.Close()
}

// What the leader's events have said of a queue is not said again each time that it wakes, but what changes is.
func TestWakeRepeatsNoEvent(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3, number("x-max-length", 1), text("x-dead-letter-exchange", ""), text("x-dead-letter-strategy", "at-least-once"))
	count := func(kind event.Kind) (all uint64) {
		for _, node := range n.nodes {
			all += node.EventCounts()[kind]
		}
		return all
	}
	n.nodes["a"].publish(t, q, "fills it", quorumq.Unlimited)
	poll(t, "an event says that the queue is full", func() error {
		if count(event.QueueFull) == 0 {
			return errWaiting
		}
		return nil
	})
	for range 3 {
		n.sleeps(q)
		if full, degraded := count(event.QueueFull), count(event.DegradedStrategy); full != 1 || degraded != 1 {
			t.Fatalf("%d events say that the queue is full, %d that dead-lettering is weaker; want one of each", full, degraded)
		}
		n.overview(q) // wakes it
	}
	if _, err := n.nodes["b"].queue(t, q).Purge(testContext(t)); err != nil {
		t.Fatal(err)
	}
	poll(t, "an event says that there is room again", func() error {
		if count(event.QueueNotFull) != 1 {
			return errWaiting
		}
		return nil
	})
	if full := count(event.QueueFull); full != 1 {
		t.Errorf("%d events say that the queue is full", full)
	}
}

// The leader of a queue is the same before and after it hibernated, whichever node wakes it, and so is one to which it
// was moved meanwhile.
func TestLeaderStaysOverHibernation(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	nodes := []id.NodeID{"a", "b", "c"}
	q := n.nodes["a"].declare(t, "q", 3)
	for k := range 9 {
		led := nodes[k/3]
		n.sleeps(q)
		if err := n.nodes["a"].leaders.Transfer(testContext(t), q, led); err != nil {
			t.Fatal(err)
		}
		n.sleeps(q)
		if at := n.lastLed(q); at != led {
			t.Fatalf("node %s led it last, want %s", at, led)
		}
		n.nodes[nodes[k%3]].publish(t, q, fmt.Sprint(k), quorumq.Unlimited) // wakes it
		n.sleeps(q)
		if at := n.lastLed(q); at != led {
			t.Errorf("node %s woke it, and node %s leads it instead of %s", nodes[k%3], at, led)
		}
	}
}

// A queue that hibernated is led by a node that does not drain when it wakes, also if its last leader's node drains.
func TestDrainedLeadsNoneThatWakes(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	queues := map[id.NodeID]id.QueueUID{}
	for _, i := range []id.NodeID{"a", "b", "c"} {
		queues[i] = n.nodes["a"].declare(t, "led by "+string(i), 3)
		if err := n.nodes["a"].leaders.Transfer(testContext(t), queues[i], i); err != nil {
			t.Fatal(err)
		}
	}
	for i, q := range queues {
		n.sleeps(q)
		if at := n.lastLed(q); at != i {
			t.Fatalf("node %s led it last, want %s", at, i)
		}
	}
	if err := n.nodes["b"].unloader.Drain(testContext(t), func(operation.Progress) {}); err != nil {
		t.Fatal(err)
	}
	poll(t, "all know that b drains", func() error {
		for i, node := range n.nodes {
			if !node.mux.Drains("b") {
				return fmt.Errorf("%s does not", i)
			}
		}
		return nil
	})
	for i, q := range queues {
		n.nodes["a"].publish(t, q, "wakes it", quorumq.Unlimited)
		n.sleeps(q)
		if at := n.lastLed(q); at == "b" || i != "b" && at != i {
			t.Errorf("node %s leads the queue that %s led before, though b drains", at, i)
		}
	}
}

// Many who ask at the same time wake a queue once, and all are served.
func TestHibernateAndManyAsk(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	for range 5 {
		n.sleeps(q)
		errs := make(chan error, 9)
		for k := range cap(errs) {
			go func() {
				_, err := n.nodes[[]id.NodeID{"a", "b", "c"}[k%3]].leaders.Status(testContext(t), q)
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
}

// A message expires in time although its queue hibernates, and although the node that led
// it is gone.
func TestHibernateAndExpire(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("the leader's node dies: ", dies), func(t *testing.T) {
			n := newSleepyNodes(t, 2*time.Second)
			q := n.nodes["a"].declare(t, "q", 3)
			n.nodes["a"].publish(t, q, "short", 2000)
			n.sleeps(q)
			if dies {
				n.stop(n.lastLed(q))
			}
			poll(t, "the message has expired without being asked for", func() error {
				for _, node := range n.nodes {
					if m := node.host.Member(q); m != nil && m.Led() != nil {
						var o quorumq.Overview
						m.Read(func(state *quorumq.Queue) { o = state.Overview() })
						if o.Ready == 0 && o.Expired == 1 {
							return nil
						}
					} else if kept, _ := node.asleep(q); kept != nil && kept.Expired == 1 {
						return nil
					}
				}
				return errWaiting
			})
		})
	}
}

// A node that is lost wakes nobody; its queues are there when they are asked for, and a
// restart of all nodes loses nothing.
func TestHibernateAndLoseNodes(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 2*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "kept", quorumq.Unlimited)
	n.sleeps(q)
	gone := n.lastLed(q)
	n.stop(gone)
	n.sleeps(q)
	var left *testNode
	for _, node := range n.nodes {
		left = node
	}
	left.publish(t, q, "after", quorumq.Unlimited)
	n.start(gone)
	n.sleeps(q)
	n.stop("a", "b", "c")
	n.join = nil
	n.start("a", "b", "c")
	_, in := n.nodes[gone].consume(t, q)
	in.await(t, "kept", "after")
}

// shows returns the nodes that show a queue in sums over nodes, and as what.
func (n *testNodes) shows(q id.QueueUID) map[id.NodeID]quorumq.Overview {
	shown := map[id.NodeID]quorumq.Overview{}
	for i, node := range n.nodes {
		for uid, o := range node.LedFigures() {
			if uid == q {
				shown[i] = *o
			}
		}
	}
	return shown
}

// While the node is gone that led a hibernating queue last, one other node shows the queue as it was, and nobody wakes it;
// so it is after a restart. Without a majority nobody shows it.
func TestHibernateAndShow(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "kept", quorumq.Unlimited)
	n.sleeps(q)
	gone := n.lastLed(q)
	kept, _ := n.nodes[gone].asleep(q)
	want := *kept
	term, last, _ := n.nodes[gone].storage.Ends(q.Group())
	alone := func(what string, may func(id.NodeID) bool) {
		t.Helper()
		poll(t, what, func() error {
			all := n.shows(q)
			for i, o := range all {
				if len(all) == 1 && may(i) && o == want {
					return nil
				}
			}
			return fmt.Errorf("it is shown as %+v", all)
		})
	}
	byLeader, byOther := func(i id.NodeID) bool { return i == gone }, func(i id.NodeID) bool { return i != gone }
	alone("its last leader's node shows it", byLeader)
	n.stop(gone)
	left := slices.Collect(maps.Keys(n.nodes))
	n.miss(gone)
	alone("another node shows it", byOther)
	n.looksAsleep(q, want)
	n.stop(left...)
	n.join = nil
	n.start(left...)
	alone("another node shows it after a restart", byOther)
	n.looksAsleep(q, want)
	n.start(gone)
	alone("its last leader's node shows it again", byLeader)
	for i, node := range n.nodes {
		if t2, l2, _ := node.storage.Ends(q.Group()); t2 != term || l2 != last {
			t.Errorf("node %s: the log ends at %d in term %d, before at %d in term %d: the queue was awake", i, l2, t2, last, term)
		}
	}
	n.stop(gone, left[0])
	n.miss(gone, left[0])
	if all := n.shows(q); len(all) > 0 {
		t.Errorf("without a majority it is shown as %+v", all)
	}
}

// A queue that hibernates is in no list and no sum while the node that led it last is not connected to a majority of the
// members' nodes. Who asks for it alone sees it as it was.
func TestHibernateWithoutMajority(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q, alone := n.nodes["a"].declare(t, "q", 3), n.nodes["a"].declare(t, "alone", 1)
	n.nodes["a"].publish(t, q, "kept", quorumq.Unlimited)
	if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "a"); err != nil {
		t.Fatal(err)
	}
	n.sleeps(q)
	if at := n.lastLed(q); at != "a" {
		t.Fatalf("node %s led it last", at)
	}
	a := n.nodes["a"]
	poll(t, "the queue with one member hibernates", func() error {
		if _, sleeps := a.asleep(alone); !sleeps {
			return errWaiting
		}
		return nil
	})
	want, _ := a.asleep(q)
	n.stop("b", "c")
	n.miss("b", "c")
	if all := n.shows(q); len(all) > 0 {
		t.Errorf("without a majority it is shown as %+v", all)
	}
	if all := n.shows(alone); len(all) != 1 {
		t.Errorf("a queue whose only member is there is shown as %+v", all)
	}
	all, err := a.AllFigures(testContext(t), nil)
	if err != nil || all.Queues[q] != nil || all.Queues[alone] == nil {
		t.Errorf("listed as %+v, the one with a majority as %+v, %v", all.Queues[q], all.Queues[alone], err)
	}
	if s, err := a.leaders.Figures(testContext(t), q); err != nil || s.Overview != *want || !s.Hibernated || len(s.Online) != 1 {
		t.Errorf("asked for alone it is %+v, %v", s, err)
	}
	n.start("b")
	poll(t, "it is shown again, by the node that led it last", func() error {
		all := n.shows(q)
		if o, shown := all["a"]; len(all) != 1 || !shown || o != *want {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
}

// miss waits until the nodes that run have no connection to some that do not.
func (n *testNodes) miss(gone ...id.NodeID) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("no node is connected to %q", gone), func() error {
		for i, node := range n.nodes {
			for _, g := range gone {
				if _, up := node.mux.Connected(g); up {
					return fmt.Errorf("%s is connected to %s", i, g)
				}
			}
		}
		return nil
	})
}

// looksAsleep checks that who looks at a queue that hibernates sees it, at every node, and does not wake it.
func (n *testNodes) looksAsleep(q id.QueueUID, want quorumq.Overview) {
	n.t.Helper()
	for i, node := range n.nodes {
		all, err := node.AllFigures(testContext(n.t), nil)
		if err != nil || all.Queues[q] == nil || all.Queues[q].Overview != want || n.nodes[all.Queues[q].Leader] == nil {
			n.t.Errorf("node %s lists %+v, %v", i, all.Queues[q], err)
		}
		if s, err := node.leaders.Figures(testContext(n.t), q); err != nil || s.Overview != want || n.nodes[s.Leader] == nil {
			n.t.Errorf("node %s shows %+v, %v", i, s, err)
		}
	}
	n.sleeps(q)
}

// notes returns what nodes that have stopped have noted of queues that hibernate, by file.
func (n *testNodes) notes() map[string][]byte {
	n.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.dir, "*", "asleep*"))
	if err != nil || len(files) == 0 {
		n.t.Fatalf("notes %q, %v", files, err)
	}
	notes := map[string][]byte{}
	for _, f := range files {
		if notes[f], err = os.ReadFile(f); err != nil {
			n.t.Fatal(err)
		}
	}
	return notes
}

// Queues that hibernate stay closed over a restart of all nodes, with their figures, and do
// what they have to do in time. One that was used after its nodes wrote down that it
// hibernates is opened.
func TestHibernateOverRestart(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 2*time.Second)
	rests := n.nodes["a"].declare(t, "rests", 3)
	due := n.nodes["b"].declare(t, "due", 3)
	n.nodes["a"].publish(t, rests, "kept", quorumq.Unlimited)
	n.nodes["a"].publish(t, due, "short", 8000)
	n.sleeps(rests)
	n.sleeps(due)
	used := n.nodes["c"].declare(t, "used", 3)
	n.sleeps(used)
	term, last, _ := n.nodes["a"].storage.Ends(used.Group())
	n.stop("a", "b", "c")
	old := n.notes()
	n.join = nil
	n.start("a", "b", "c")
	consumer, in := n.nodes["b"].consume(t, used)
	n.nodes["b"].publish(t, used, "seen", quorumq.Unlimited)
	in.await(t, "seen")
	n.stop("a", "b", "c")
	for file, b := range old {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.join = nil
	n.start("a", "b", "c")
	consumer.Close()
	for i, node := range n.nodes {
		if _, sleeps := node.asleep(rests); !sleeps || node.host.Member(rests) != nil {
			t.Errorf("node %s opened a queue that hibernated", i)
		}
		s, err := node.leaders.Figures(testContext(t), rests)
		if err != nil || s.Overview.Ready != 1 {
			t.Errorf("figures at node %s: %+v, %v", i, s.Overview, err)
		}
		if p := node.StartProgress(); p.Total != 3 {
			t.Errorf("node %s tells of %+v, want 3 groups", i, p)
		}
	}
	for i, node := range n.nodes {
		w, err := node.host.Hibernate(t.Context(), &nodev1.HibernateRequest{
			Groups: []*nodev1.RestingGroup{{Group: uint64(used), Term: term, LastIndex: last}},
		})
		if err != nil || w.GetClosed()[0] {
			t.Errorf("node %s believes a note of entry %d, and the queue was used since; %v", i, last, err)
		}
	}
	poll(t, "the message has expired without being asked for", func() error {
		for _, node := range n.nodes {
			if kept, _ := node.asleep(due); kept != nil && kept.Expired == 1 {
				return nil
			}
		}
		return errWaiting
	})
	_, in = n.nodes["b"].consume(t, rests)
	in.await(t, "kept")
}

// A queue that hibernates can be deleted, and leaves nothing.
func TestHibernateAndDelete(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "gone", quorumq.Unlimited)
	n.sleeps(q)
	if _, err := n.nodes["b"].catalog.Propose(testContext(t), &catalog.DeleteQueue{VHost: "/", Name: "q", UID: q}); err != nil {
		t.Fatal(err)
	}
	poll(t, "nothing is left", func() error {
		for i, node := range n.nodes {
			if _, sleeps := node.asleep(q); sleeps || node.host.Member(q) != nil || node.storage.HasQueue(q) {
				return errors.New("something is left on node " + string(i))
			}
		}
		return nil
	})
}

// A policy is put in force for queues that exist, whether they are awake or not, and whether the node is there that led
// them last.
func TestPolicyChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rest time.Duration
		gone bool
	}{{"awake", 0, false}, {"hibernating", 50 * time.Millisecond, false}, {"its leader's node is gone", 50 * time.Millisecond, true}} {
		t.Run(c.name, func(t *testing.T) {
			n := newTestNodes(t, func(config *Config) {
				config.HibernateAfter = c.rest
			})
			n.start("a", "b", "c")
			q := n.nodes["a"].declare(t, "q", 3)
			if c.rest > 0 {
				n.sleeps(q)
			}
			if c.gone {
				gone := n.lastLed(q)
				n.stop(gone)
				n.miss(gone)
				n.sleeps(q)
			}
			left := slices.Sorted(maps.Keys(n.nodes))
			if _, err := n.nodes[left[0]].catalog.Propose(testContext(t), &catalog.PutPolicy{Policy: catalog.Policy{
				VHost: "/", Name: "short", Pattern: "q", ApplyTo: catalog.ApplyToAll,
				Definition: message.Table{{Name: "max-length", Value: message.Int64(3)}},
			}}); err != nil {
				t.Fatal(err)
			}
			poll(t, "the policy is in force", func() error {
				s, err := n.nodes[left[1]].leaders.Figures(testContext(t), q)
				if err != nil || s.Overview.Config.MaxLength != 3 {
					return fmt.Errorf("%+v, %w", s.Overview.Config, err)
				}
				return nil
			})
		})
	}
}

// PO-10: a policy that changes nothing for a queue leaves it asleep, also if its settings have
// other forms that mean the same, such as a negative limit.
func TestPolicyThatChangesNothingWakesNobody(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(config *Config) {
		config.HibernateAfter = 50 * time.Millisecond
		config.SuspectAfter = 10 * time.Second // the loss of a leader's node wakes it too
	})
	n.start("a", "b", "c")
	limit := number("x-delivery-limit", -5)
	q, other := n.nodes["a"].declare(t, "q", 3, limit), n.nodes["a"].declare(t, "other", 3, limit)
	n.sleeps(q)
	n.sleeps(other)
	figures := func(q id.QueueUID) (s leader.Status) {
		poll(t, "the figures", func() (err error) {
			s, err = n.nodes["a"].leaders.Figures(testContext(t), q)
			return err
		})
		return s
	}
	before := figures(q)
	if _, err := n.nodes["a"].catalog.Propose(testContext(t), &catalog.PutPolicy{Policy: catalog.Policy{
		VHost: "/", Name: "short", Pattern: "o", ApplyTo: catalog.ApplyToAll,
		Definition: message.Table{{Name: "max-length", Value: message.Int64(3)}},
	}}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the policy is in force", func() error {
		if s := figures(other); s.Overview.Config.MaxLength != 3 {
			return fmt.Errorf("%+v", s.Overview.Config)
		}
		return nil
	})
	n.sleeps(other)
	n.sleeps(q) // if it was woken, it is asleep again, in a later term
	if after := figures(q); after.Group.GetTerm() != before.Group.GetTerm() || after.Leader != before.Leader {
		t.Errorf("it was woken: term %d under %s, before %d under %s", after.Group.GetTerm(), after.Leader, before.Group.GetTerm(), before.Leader)
	}
}

// A queue whose members cannot all be closed stays awake: one node may not let queues hibernate, because it is of
// another build or set otherwise. The others do not close and open their members for ever.
func TestHibernateWithUnwillingNode(t *testing.T) {
	t.Parallel()
	const rest = 20 * time.Millisecond
	n := newTestNodes(t, func(c *Config) {
		c.SuspectAfter = 2 * time.Second
		if c.Node != "c" {
			c.HibernateAfter = rest
		}
	})
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "a"); err != nil {
		t.Fatal(err)
	}
	opened := map[any]bool{}
	deadline := time.Now().Add(150 * rest) // it is tried after 1, 2, 4 … 128 of them
	for time.Now().Before(deadline) {
		if m := n.nodes["b"].host.Member(q); m != nil {
			opened[m] = true
		}
		time.Sleep(time.Millisecond)
	}
	if most := 12; len(opened) > most {
		t.Errorf("the willing node has opened its member %d times, want at most %d", len(opened), most)
	}
	n.nodes["c"].publish(t, q, "there", quorumq.Unlimited)
}

// A queue that hibernates again after little has happened takes no snapshot again, whatever is left in its log.
func TestHibernateAgain(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	body := strings.Repeat("x", 4096)
	for range 100 { // more, when it is consumed, than makes a snapshot worthwhile before the queue hibernates
		n.nodes["a"].publish(t, q, body, quorumq.Unlimited)
	}
	n.nodes["a"].drained(t, q)
	n.sleeps(q)
	first := n.snapshots(q)
	if len(first) == 0 {
		t.Fatal("no member has taken a snapshot")
	}
	for range 2 {
		if _, err := n.nodes["a"].leaders.Status(testContext(t), q); err != nil { // wakes it
			t.Fatal(err)
		}
		n.sleeps(q)
	}
	if again := n.snapshots(q); !maps.Equal(again, first) {
		t.Errorf("newest snapshots before %v, after %v", first, again)
	}
}

// snapshots returns the names of the newest snapshots of a queue's members.
func (n *testNodes) snapshots(q id.QueueUID) map[id.NodeID]string {
	n.t.Helper()
	out := map[id.NodeID]string{}
	for i := range n.nodes {
		files, err := filepath.Glob(filepath.Join(n.dir, string(i), "queues", q.String(), "snapshots", "*.snapshot"))
		if err != nil {
			n.t.Fatal(err)
		}
		if len(files) > 0 {
			out[i] = filepath.Base(files[len(files)-1])
		}
	}
	return out
}

// Whoever asks how a queue's members stand wakes them, and is answered by all.
func TestMembersOfSleeper(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	n.sleeps(q)
	for _, m := range n.nodes["b"].leaders.AllMembers(testContext(t), q, false) {
		if m.Trouble != "" || m.Group == nil {
			t.Errorf("member %s: %q", m.Node, m.Trouble)
		}
	}
}

// The leadership of a queue that hibernates can be moved without saying where to.
func TestTransferOfSleeper(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	n.sleeps(q)
	if err := n.nodes["a"].leaders.Transfer(testContext(t), q, ""); err != nil {
		t.Error(err)
	}
}

// A member that hibernates is opened when the log finds its entries damaged: only then is the damage repaired.
func TestDamageOfSleeper(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t, 10*time.Second)
	q := n.nodes["a"].declare(t, "q", 3)
	n.sleeps(q)
	before, _, _ := n.nodes["b"].storage.Ends(q.Group())
	n.nodes["b"].groupLost(q.Group(), wal.ErrLost)
	poll(t, "the queue has been awake", func() error {
		if term, _, _ := n.nodes["b"].storage.Ends(q.Group()); term <= before {
			return fmt.Errorf("term %d", term)
		}
		return nil
	})
}
