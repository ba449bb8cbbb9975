package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// newSleepyNodes starts nodes whose queues hibernate soon.
func newSleepyNodes(t testing.TB) *testNodes {
	n := newTestNodes(t, func(c *Config) {
		c.HibernateAfter = 50 * time.Millisecond
		c.SuspectAfter = 2 * time.Second
	})
	n.start("a", "b", "c")
	return n
}

// sleeps waits until the members of a queue hibernate on the nodes that run.
func (n *testNodes) sleeps(q id.QueueUID) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("queue %s hibernates", q), func() error {
		for i, node := range n.nodes {
			if node.host.sleeper(q) == nil || node.host.queue(q) != nil {
				return fmt.Errorf("its member on node %s is awake", i)
			}
		}
		return nil
	})
}

// lastLed returns the node that led a hibernating queue last.
func (n *testNodes) lastLed(q id.QueueUID) id.NodeID {
	n.t.Helper()
	for i, node := range n.nodes {
		if a := node.host.sleeper(q); a != nil && a.kept != nil {
			return i
		}
	}
	n.t.Fatal("no node has the figures of the queue")
	return ""
}

// A queue at rest is closed on all nodes, and there for whoever asks, on any node.
func TestHibernate(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t)
	q := n.nodes["a"].declare(t, "q", 3)
	sent := 0
	for _, i := range []id.NodeID{"a", "b", "c"} {
		n.sleeps(q)
		n.nodes[i].publish(t, q, fmt.Sprint("by ", i), quorumq.Unlimited)
		sent++
		n.sleeps(q)
		s, err := n.nodes[i].leaders.Figures(testContext(t), q)
		if err != nil || s.Overview.Ready != uint64(sent) {
			t.Fatalf("figures %+v, %v", s.Overview, err)
		}
		if n.nodes[i].host.sleeper(q) == nil {
			t.Error("a look at the figures woke the queue")
		}
	}
	if o := n.overview(q); o.Ready != uint64(sent) {
		t.Errorf("overview %+v", o)
	}
	n.sleeps(q)
	consumer, in := n.nodes["b"].consume(t, q)
	in.await(t, "by a", "by b", "by c")
	for i, node := range n.nodes {
		if node.host.sleeper(q) != nil {
			t.Errorf("the member on node %s hibernates although the queue has a consumer", i)
		}
	}
	consumer.Close()
}

// Many who ask at the same time wake a queue once, and all are served.
func TestHibernateAndManyAsk(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t)
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
			n := newSleepyNodes(t)
			q := n.nodes["a"].declare(t, "q", 3)
			n.nodes["a"].publish(t, q, "short", 2000)
			n.sleeps(q)
			if dies {
				n.stop(n.lastLed(q))
			}
			poll(t, "the message has expired without being asked for", func() error {
				for _, node := range n.nodes {
					if m := node.host.queue(q); m != nil && m.led.Load() != nil {
						var o quorumq.Overview
						m.group.Read(func() { o = m.machine.queue.Overview() })
						if o.Ready == 0 && o.Expired == 1 {
							return nil
						}
					} else if a := node.host.sleeper(q); a != nil && a.kept != nil && a.kept.Expired == 1 {
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
	n := newSleepyNodes(t)
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

// note has a node write down what hibernates, and nothing more for a while.
func (n *testNode) note(t testing.TB) {
	t.Helper()
	poll(t, "the node has written its first notes", func() error {
		_, err := sealed.ReadCopy(n.dir.Path(), asleepFile, 0)
		return err
	})
	n.host.mu.Lock()
	n.host.unnoted = true
	n.host.mu.Unlock()
	n.host.writeNotes()
}

// Queues that hibernate stay closed over a restart of all nodes, with their figures, and do
// what they have to do in time. One that was used after its nodes wrote down that it
// hibernates is opened.
func TestHibernateOverRestart(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t)
	rests := n.nodes["a"].declare(t, "rests", 3)
	due := n.nodes["b"].declare(t, "due", 3)
	n.nodes["a"].publish(t, rests, "kept", quorumq.Unlimited)
	n.nodes["a"].publish(t, due, "short", 4000)
	n.sleeps(rests)
	n.sleeps(due)
	used := n.nodes["c"].declare(t, "used", 3)
	n.sleeps(used)
	for _, node := range n.nodes {
		node.note(t)
	}
	noted := n.nodes["a"].host.sleeper(used).last
	consumer, in := n.nodes["b"].consume(t, used)
	n.nodes["b"].publish(t, used, "seen", quorumq.Unlimited)
	in.await(t, "seen")
	n.stop("a", "b", "c")
	n.join = nil
	n.start("a", "b", "c")
	consumer.Close()
	for i, node := range n.nodes {
		if node.host.sleeper(rests) == nil || node.host.queue(rests) != nil {
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
		if a := node.host.sleeper(used); a != nil && a.last <= noted {
			t.Errorf("node %s believes a note of entry %d, and the queue was used since", i, noted)
		}
	}
	poll(t, "the message has expired without being asked for", func() error {
		for _, node := range n.nodes {
			if a := node.host.sleeper(due); a != nil && a.kept != nil && a.kept.Expired == 1 {
				return nil
			}
		}
		return errWaiting
	})
	_, in = n.nodes["b"].consume(t, rests)
	in.await(t, "kept")
}

// A note is taken for true only of the log that it was made of.
func TestNotes(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t)
	q := n.nodes["a"].declare(t, "q", 3)
	n.sleeps(q)
	n.nodes["c"].note(t)
	c := n.nodes["c"].Cluster
	term, last, ok := c.storage.Ends(q.Group())
	if !ok || last == 0 {
		t.Fatalf("the log ends in term %d at %d, %v", term, last, ok)
	}
	for _, x := range []struct {
		name  string
		value string
		taken bool
	}{
		{"true", fmt.Sprintf(`{"term":%d,"last":%d,"due":7,"leader":"a"}`, term, last), true},
		{"another term", fmt.Sprintf(`{"term":%d,"last":%d,"leader":"a"}`, term-1, last), false},
		{"another entry", fmt.Sprintf(`{"term":%d,"last":%d,"leader":"a"}`, term, last-1), false},
		{"not read", `{"term":"x"}`, false},
		{"status not read", fmt.Sprintf(`{"term":%d,"last":%d,"leader":"a","status":"/w=="}`, term, last), false},
	} {
		if err := sealed.Write(c.dir.Path(), asleepFile, 0, sealed.Record{}.With(fmt.Sprint(uint64(q)), x.value)); err != nil {
			t.Fatal(err)
		}
		h := newHost(c)
		h.readNotes()
		a := h.asleep[q]
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		if (a != nil) != x.taken {
			t.Errorf("%s: %+v", x.name, a)
		}
		if x.taken && (a.leader != "a" || a.due != 7) {
			t.Errorf("%s: read %+v", x.name, a)
		}
	}
}

// A queue that hibernates can be deleted, and leaves nothing.
func TestHibernateAndDelete(t *testing.T) {
	t.Parallel()
	n := newSleepyNodes(t)
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "gone", quorumq.Unlimited)
	n.sleeps(q)
	if _, err := n.nodes["b"].catalog.Propose(testContext(t), &catalog.DeleteQueue{VHost: "/", Name: "q", UID: q}); err != nil {
		t.Fatal(err)
	}
	poll(t, "nothing is left", func() error {
		for i, node := range n.nodes {
			if node.host.sleeper(q) != nil || node.host.queue(q) != nil || node.storage.HasQueue(q) {
				return errors.New("something is left on node " + string(i))
			}
		}
		return nil
	})
}

// A policy is put in force for queues that exist, whether they are awake or not.
func TestPolicyChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rest time.Duration
	}{{"awake", 0}, {"hibernating", 50 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			n := newTestNodes(t, func(config *Config) {
				config.HibernateAfter = c.rest
			})
			n.start("a", "b", "c")
			q := n.nodes["a"].declare(t, "q", 3)
			if c.rest > 0 {
				n.sleeps(q)
			}
			if _, err := n.nodes["b"].catalog.Propose(testContext(t), &catalog.PutPolicy{Policy: catalog.Policy{
				VHost: "/", Name: "short", Pattern: "q", ApplyTo: catalog.ApplyToAll,
				Definition: message.Table{{Name: "max-length", Value: message.Int64(3)}},
			}}); err != nil {
				t.Fatal(err)
			}
			poll(t, "the policy is in force", func() error {
				s, err := n.nodes["c"].leaders.Figures(testContext(t), q)
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
