package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// load publishes numbered messages through a node, a few at a time, until it is stopped.
type load struct {
	t         *testing.T
	stop      func()
	done      sync.WaitGroup
	mu        sync.Mutex
	confirmed map[string]bool
	failed    []error
}

// loadWindow is how many messages of a load are unanswered at a time.
const loadWindow = 8

func (n *testNode) load(t *testing.T, q id.QueueUID) *load {
	stopped := make(chan struct{})
	l := &load{t: t, stop: sync.OnceFunc(func() { close(stopped) }), confirmed: map[string]bool{}}
	t.Cleanup(l.stop)
	end := n.queue(t, q)
	slots := make(chan struct{}, loadWindow)
	l.done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stopped:
				for range loadWindow {
					slots <- struct{}{}
				}
				return
			case slots <- struct{}{}:
			}
			body := fmt.Sprintf("%s-%06d", n.cfg.Node, i)
			answered := func(err error) {
				l.mu.Lock()
				if err == nil {
					l.confirmed[body] = true
				} else {
					l.failed = append(l.failed, err)
				}
				l.mu.Unlock()
				<-slots
			}
			err := end.Enqueue(context.Background(), quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited}, []byte(body), answered)
			if err != nil {
				answered(err)
			}
		}
	})
	return l
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.confirmed)
}

// goesOn waits until a few more messages are confirmed than now.
func (l *load) goesOn() {
	l.t.Helper()
	want := l.count() + 3*loadWindow
	poll(l.t, "confirms go on", func() error {
		if have := l.count(); have < want {
			return fmt.Errorf("%d of %d", have, want)
		}
		return nil
	})
}

// check ends the load and has everything consumed: all that was confirmed is there, and
// everything once.
func (l *load) check(at *testNode, q id.QueueUID) {
	l.t.Helper()
	l.stop()
	l.done.Wait()
	if len(l.failed) > 0 {
		l.t.Errorf("%d publishes failed, the first: %v", len(l.failed), l.failed[0])
	}
	seen := at.drained(l.t, q)
	for body := range l.confirmed {
		if seen[body] == 0 {
			l.t.Errorf("%s was confirmed and is lost", body)
		}
	}
	for body, times := range seen {
		if times > 1 {
			l.t.Errorf("%s is there %d times", body, times)
		}
	}
	l.t.Logf("%d confirmed, %d found", len(l.confirmed), len(seen))
}

// drained consumes a queue until it is empty, and returns how often each body came.
func (n *testNode) drained(t *testing.T, q id.QueueUID) map[string]int {
	t.Helper()
	const prefetch = 500
	came := make(chan []traffic.Delivery, prefetch)
	c, err := n.queue(t, q).Consume(testContext(t), gateway.ConsumerConfig{
		Prefetch: prefetch, Ended: func(error) {}, Deliver: func(ds []traffic.Delivery) { came <- ds },
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	poll(t, "the queue is empty", func() error {
		for {
			select {
			case ds := <-came:
				for _, d := range ds {
					seen[string(d.Message)]++
				}
				c.Decide(quorumq.MsgIDRange{First: ds[0].MsgID, Last: ds[len(ds)-1].MsgID}, gateway.Decision{Kind: gateway.Ack})
				continue
			default:
			}
			break
		}
		s, err := n.leaders.Status(testContext(t), q)
		if left := s.Overview.Ready + s.Overview.Unsettled; err != nil || left > 0 {
			return fmt.Errorf("%d are left, %d seen, %w", left, len(seen), err)
		}
		return nil
	})
	c.Close()
	return seen
}

// has waits until the catalog, the group and the nodes agree on a queue's members.
func (n *testNodes) has(q id.QueueUID, members ...id.NodeID) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("the members are %q", members), func() error {
		r, ok := n.leader(q).View().QueueByUID(q)
		if have := slices.Sorted(slices.Values(r.Members)); !ok || r.Change != nil || !slices.Equal(have, members) {
			return fmt.Errorf("in the catalog: %q, %v", r.Members, r.Change)
		}
		leader := n.leader(q).host.Member(q)
		if leader == nil {
			return errWaiting
		}
		at, err := leader.Group().Configuration()
		if have := slices.Sorted(slices.Values(at.Voters)); err != nil || !slices.Equal(have, members) || len(at.Nonvoters) > 0 {
			return fmt.Errorf("in the group: %+v, %w", at, err)
		}
		for i, node := range n.nodes {
			if m := node.host.Member(q); (m != nil) != slices.Contains(members, i) {
				return fmt.Errorf("node %s: open %v", i, m != nil)
			}
			if !slices.Contains(members, i) && node.dir.HasQueue(q) {
				return fmt.Errorf("node %s: files are left", i)
			}
		}
		return nil
	})
}

// Members come and go under load: one grows to five and shrinks again, and its members
// are replaced, the leader too. Nothing is lost, nothing twice, and confirms continue.
func TestMembersChange(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.start("d", "e")
	q := n.nodes["a"].declare(t, "q", 1)
	l := n.nodes["b"].load(t, q)
	l.goesOn()
	var phases []string
	report := func(p operation.Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
	}
	change := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		l.goesOn()
	}
	at := n.nodes["e"]
	change(at.operator.AddMember(testContext(t), q, "b", report))
	change(at.operator.AddMember(testContext(t), q, "c", report))
	n.has(q, "a", "b", "c")
	change(at.operator.AddMember(testContext(t), q, "c", report)) // is so
	change(at.operator.AddMember(testContext(t), q, "d", report))
	change(at.operator.AddMember(testContext(t), q, "e", report))
	n.has(q, "a", "b", "c", "d", "e")
	if r, _ := at.View().QueueByUID(q); r.Size != 5 {
		t.Errorf("size %d", r.Size)
	}
	leader := n.leader(q).cfg.Node
	change(at.operator.RemoveMember(testContext(t), q, leader, report)) // hands over first
	change(at.operator.AddMember(testContext(t), q, leader, report))    // and comes back empty
	for _, i := range []id.NodeID{"d", "e"} {
		change(at.operator.RemoveMember(testContext(t), q, i, report))
	}
	n.has(q, "a", "b", "c")
	change(at.operator.ReplaceMember(testContext(t), q, "b", "e", report))
	n.has(q, "a", "c", "e")
	change(at.operator.ReplaceMember(testContext(t), q, "c", "c", report)) // rebuilt
	n.has(q, "a", "c", "e")
	if r, _ := at.View().QueueByUID(q); r.Size != 3 {
		t.Errorf("size %d", r.Size)
	}
	l.check(n.nodes["d"], q)
	if len(phases) == 0 {
		t.Error("no progress was reported")
	}
	t.Logf("phases: %q", phases)
	for what, err := range map[string]error{
		"an outsider joins":  at.operator.AddMember(testContext(t), q, "z", nil),
		"an outsider leaves": at.operator.RemoveMember(testContext(t), q, "z", nil),
		"no such queue":      at.operator.AddMember(testContext(t), 77, "a", nil),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	// All members start again: nobody forgets that it votes.
	n.stop("a", "c", "e")
	n.start("a", "c", "e")
	n.has(q, "a", "c", "e")
}

// A member that joins a queue with a long history gets its state and the newest entries, not all of them.
func TestMemberJoinsLongLog(t *testing.T) {
	t.Parallel()
	const history = 2500
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Disabled = true })
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 1)
	confirmed := n.nodes["a"].publishAll(t, q, "m", history)
	var joins id.NodeID = "b"
	if n.leader(q).cfg.Node == joins {
		joins = "c"
	}
	if err := n.nodes["a"].operator.AddMember(testContext(t), q, joins, nil); err != nil {
		t.Fatal(err)
	}
	s := n.nodes[joins].host.Member(q).Group().Stats()
	if s.Entries > history/2 || s.AppliedIndex < history {
		t.Errorf("of %d entries it has applied %d one by one, want at most half", s.AppliedIndex, s.Entries)
	}
	n.intactQueue(t, q, joins, confirmed)
}

// A node that joins a cluster gets the catalog, and not each of the changes that it has seen.
func TestNodeJoinsLongCatalog(t *testing.T) {
	t.Parallel()
	const history = 2500
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	a := n.nodes["a"].catalog
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := 0; a.Raft().Stats().LastIndex < history && !t.Failed(); k++ {
				p := catalog.Policy{
					VHost: "/", Name: fmt.Sprint("p", i), Pattern: fmt.Sprint(k), ApplyTo: catalog.ApplyToQueues,
					Definition: message.Table{number("max-length", 1)},
				}
				if _, err := a.Propose(testContext(t), &catalog.PutPolicy{Policy: p}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	n.start("d")
	s := n.nodes["d"].catalog.Raft().Stats()
	if s.Entries > history/2 || s.AppliedIndex < history {
		t.Errorf("of %d changes it has applied %d one by one, want at most half", s.AppliedIndex, s.Entries)
	}
}

// A voter that was away while another member joined gets what it lacks entry by entry: no snapshot for the one that joins drops
// that from the log.
func TestMemberAwayWhileAnotherJoins(t *testing.T) {
	t.Parallel()
	const history = 2500
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Disabled = true })
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q := a.declare(t, "q", 3)
	n.has(q, "a", "b", "c")
	n.start("d")
	n.transferTo(t, q, "a")
	n.stop("b")
	confirmed := a.publishAll(t, q, "m", history)
	if err := a.operator.AddMember(testContext(t), q, "d", nil); err != nil {
		t.Fatal(err)
	}
	n.start("b")
	poll(t, "b has all", func() error {
		m := n.nodes["b"].host.Member(q)
		if m == nil {
			return errWaiting
		}
		if s := m.Group().Stats(); s.AppliedIndex < history {
			return fmt.Errorf("applied: %d", s.AppliedIndex)
		}
		return nil
	})
	if s := n.nodes["b"].host.Member(q).Group().Stats(); s.SnapshotIndex > 0 || s.Entries < history {
		t.Errorf("it got a snapshot of entry %d and %d entries, want all entries", s.SnapshotIndex, s.Entries)
	}
	n.intactQueue(t, q, "b", confirmed)
}

// For a change that waits for the catalog one snapshot is taken, and not one in each attempt.
func TestOneSnapshotForChangeThatWaits(t *testing.T) {
	t.Parallel()
	const history = 2100
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Disabled, c.CommandTimeout = true, 3*time.Second })
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 1)
	leader := n.leader(q)
	others := slices.DeleteFunc([]id.NodeID{"a", "b", "c"}, func(i id.NodeID) bool { return i == leader.cfg.Node })
	letGo := leader.hold(t)
	if _, err := leader.catalog.Propose(testContext(t), &catalog.BeginMemberChange{UID: q, Join: others[0]}); err != nil {
		t.Fatal(err)
	}
	n.stop(others...) // and with them the catalog's majority
	var taken []uint64
	for i := range 2 {
		leader.publishAll(t, q, fmt.Sprint(i, " "), history)
		letGo()
		poll(t, "an attempt begins", func() error {
			if len(leader.changeSlots) == 0 {
				return errWaiting
			}
			return nil
		})
		letGo = leader.hold(t) // it has ended
		taken = append(taken, leader.host.Member(q).Group().Stats().SnapshotIndex)
	}
	if taken[0] == 0 || taken[1] != taken[0] {
		t.Errorf("snapshots of the entries %d, want one in the first attempt alone", taken)
	}
}

// RE-3: whoever asks for a change that is already in progress waits for it, and for no longer than he wants to.
func TestSameChangeIsGivenUp(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 1)
	r, _ := n.nodes["a"].View().QueueByUID(q)
	at := n.nodes[r.Members[0]]
	var away id.NodeID = "a"
	if at.cfg.Node == "a" {
		away = "b"
	}
	n.stop(away)
	first, end := context.WithCancel(testContext(t))
	var asked sync.WaitGroup
	asked.Go(func() { _ = at.operator.AddMember(first, q, away, nil) }) // that node is down
	defer asked.Wait()
	defer end()
	poll(t, "the change goes on", func() error {
		if r, _ := at.View().QueueByUID(q); r.Change == nil {
			return errWaiting
		}
		return nil
	})
	over, cancel := context.WithCancel(testContext(t))
	cancel()
	given := make(chan error, 1)
	go func() { given <- at.operator.AddMember(over, q, away, nil) }()
	select {
	case err := <-given:
		if err == nil {
			t.Error("it is done, though the node is down")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for good")
	}
}
