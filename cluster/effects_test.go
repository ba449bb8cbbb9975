package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// Timers fire in the order of their times, a later one replaces an earlier one, and one
// that is dropped does not fire.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var fired []string
		start := time.Now()
		var ts *timers
		set := func(q id.QueueUID, after time.Duration) {
			at := start.Add(after).UnixMilli()
			ts.set(q, quorumq.Time(at-7), at)
		}
		turned := func() { set(5, 6*time.Second) }
		due := func(q id.QueueUID, at quorumq.Time) {
			mu.Lock()
			defer mu.Unlock()
			fired = append(fired, fmt.Sprintf("%d after %v", q, time.Since(start)))
			if want := quorumq.Time(time.Now().UnixMilli() - 7); at != want {
				t.Errorf("queue %d had asked for %d, was told %d", q, want, at)
			}
		}
		ts = newTimers(func() int64 { return time.Now().UnixMilli() }, due, turned)
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() { ts.run(stop) })
		set(1, 3*time.Second)
		set(2, 100*time.Millisecond)
		set(3, 200*time.Millisecond)
		set(4, 10*time.Millisecond)
		ts.drop(4)
		set(3, 5*time.Second)
		set(1, 50*time.Millisecond)
		set(5, time.Hour)
		ts.turn() // the time of the cluster was set
		three := quorumq.Time(start.Add(5*time.Second).UnixMilli() - 7)
		ts.again(3, three-1, 1) // the queue has asked for another time since
		time.Sleep(10 * time.Second)
		synctest.Wait()
		close(stop)
		running.Wait()
		want := []string{"1 after 50ms", "2 after 100ms", "3 after 5s", "5 after 6s"}
		if !slices.Equal(fired, want) {
			t.Errorf("fired %q, want %q", fired, want)
		}
		if len(ts.where) != 0 || len(ts.heap) != 0 {
			t.Errorf("left %v", ts.where)
		}
	})
}

// Tasks of a mailbox are done in order and one at a time, those before start too; a
// closed one takes no more.
func TestMailbox(t *testing.T) {
	w := startWorkers(4)
	var boxes []*mailbox
	var done [8][]int
	var busy [8]atomic.Bool
	for b := range done {
		m := &mailbox{workers: w}
		boxes = append(boxes, m)
		m.act = func(e *effects) {
			for _, d := range e.deliver {
				done[b] = append(done[b], int(d.MsgID))
			}
		}
	}
	const each = 1000
	post := func(i int) {
		for b, m := range boxes {
			if i%3 == 0 {
				m.gather(func(e *effects, _ int) int {
					e.deliver = append(e.deliver, quorumq.Delivery{MsgID: quorumq.MsgID(i)})
					return 1
				})
				continue
			}
			m.post(func() {
				if busy[b].Swap(true) {
					t.Error("two tasks of a mailbox at a time")
				}
				done[b] = append(done[b], i)
				busy[b].Store(false)
			})
		}
	}
	for i := range each {
		if i == 10 {
			for _, m := range boxes {
				m.start()
			}
		}
		post(i)
	}
	for _, m := range boxes {
		m.close()
		if m.post(func() { t.Error("done after close") }) {
			t.Error("a closed mailbox took a task")
		}
	}
	w.close()
	for b := range done {
		if len(done[b]) != each || !slices.IsSorted(done[b]) {
			t.Errorf("mailbox %d did %d tasks, sorted %v", b, len(done[b]), slices.IsSorted(done[b]))
		}
	}
}

// What a host knows of a peer: epochs win over links, and links over one another in time.
func TestPeers(t *testing.T) {
	p := newPeers("self", 7)
	if got := p.presence("self"); got != (presence{epoch: 7, up: true}) {
		t.Errorf("self %+v", got)
	}
	at := func(e id.Epoch) transport.Peer { return transport.Peer{Node: "p", Epoch: e} }
	step := func(what string, changed, wantChanged bool, want presence) {
		t.Helper()
		if changed != wantChanged || p.presence("p") != want {
			t.Errorf("%s: changed %v, %+v", what, changed, p.presence("p"))
		}
	}
	step("unknown", false, false, presence{})
	step("up", p.inbound(at(1), true), true, presence{epoch: 1, up: true})
	step("old news", p.heard("p", 1), false, presence{epoch: 1, up: true})
	step("new life", p.heard("p", 2), true, presence{epoch: 2})
	step("old link goes", p.inbound(at(1), false), false, presence{epoch: 2})
	step("new link", p.inbound(at(2), true), true, presence{epoch: 2, up: true})
	step("down", p.inbound(at(2), false), true, presence{epoch: 2})
	step("silent while down", p.answers("p", false), false, presence{epoch: 2})
	step("up, and silent", p.inbound(at(2), true), false, presence{epoch: 2})
	step("nothing listens, by an old word", p.hasEnded("p"), false, presence{epoch: 2})
	step("it answers", p.answers("p", true), true, presence{epoch: 2, up: true})
	step("down again", p.inbound(at(2), false), true, presence{epoch: 2})
	step("nothing listens", p.hasEnded("p"), true, presence{epoch: 2, ended: true})
	step("nothing listens still", p.hasEnded("p"), false, presence{epoch: 2, ended: true})
	step("it lives all the same", p.inbound(at(2), true), true, presence{epoch: 2, up: true})
	step("newer link before the catalog", p.inbound(at(3), true), true, presence{epoch: 3, up: true})
}

// Deliveries that find no room on a link come later, all of them and in order; so do
// those beyond the bytes of one answer to Resume.
func TestLostDeliveries(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	const most = 1000
	a.host.maxHeldBytes = most
	// Once it is full, the link has room for every third frame of deliveries only.
	var full atomic.Bool
	var frames atomic.Int64
	through := a.host.answer
	a.host.answer = func(p transport.Peer, f *nodev1.Frame, unsent func()) error {
		if full.Load() && f.GetDeliveries() != nil && frames.Add(1)%3 != 0 {
			return fmt.Errorf("%w: made up", transport.ErrLinkFull)
		}
		return through(p, f, unsent)
	}
	q := a.declare(t, "q", 3)
	c, in := n.nodes["b"].consume(t, q)
	a.publish(t, q, "0", quorumq.Unlimited)
	in.await(t, "0")

	full.Store(true)
	want := []string{"0"}
	for i := range 10 {
		want = append(want, fmt.Sprint(i+1))
		a.publish(t, q, want[i+1], quorumq.Unlimited)
	}
	in.await(t, want...)

	big := strings.Repeat("x", most/4)
	for range 6 {
		a.publish(t, q, big, quorumq.Unlimited)
		want = append(want, big)
	}
	poll(t, "the big ones are delivered", func() error {
		if got := len(in.bodies()); got != len(want) {
			return fmt.Errorf("%d of %d", got, len(want))
		}
		return nil
	})
	type heldAnswer struct {
		ds   []traffic.Delivery
		last quorumq.MsgID
		err  error
	}
	answers := make(chan heldAnswer, 1)
	a.host.Held(q, c.Token().Consumer, 11, traffic.NoRoomLimit, func(h traffic.Holding, err error) { answers <- heldAnswer{h.Deliveries, h.Last, err} })
	got := <-answers
	if got.err != nil || len(got.ds) != 4 || got.last != 15 {
		t.Errorf("held: %d up to %d, %v", len(got.ds), got.last, got.err)
	}
	n.nodes["c"].host.Held(q, c.Token().Consumer, 0, traffic.NoRoomLimit, func(_ traffic.Holding, err error) { answers <- heldAnswer{err: err} })
	if got := <-answers; !isNotLeader(got.err) {
		t.Errorf("held on a follower: %v", got.err)
	}
	a.host.Held(q+1, c.Token().Consumer, 0, traffic.NoRoomLimit, func(_ traffic.Holding, err error) { answers <- heldAnswer{err: err} })
	if got := <-answers; !errors.Is(got.err, traffic.ErrNoSuchQueue) {
		t.Errorf("held of no queue: %v", got.err)
	}
}

// RE-1: nothing remains of a queue of which no majority could start. Once it can, the
// name is free.
func TestUndeclared(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.nodes["a"].cfg.CommandTimeout = 1500 * time.Millisecond // nobody reads it meanwhile
	next := id.FirstQueueUID
	for _, i := range []id.NodeID{"b", "c"} {
		// A file where the directory shall be.
		if err := os.WriteFile(n.nodes[i].dir.Queue(next), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := n.nodes["a"].operator.DeclareQueue(testContext(t), catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true,
	}, 3, false)
	if !errors.Is(err, traffic.ErrUnavailable) || !strings.Contains(err.Error(), `"q"`) {
		t.Fatalf("declare: %v", err)
	}
	if _, exists := n.nodes["a"].View().Queue("/", "q"); exists {
		t.Error("the queue remains")
	}
	for i, node := range n.nodes {
		poll(t, "files are gone", func() error {
			left, err := filepath.Glob(filepath.Join(node.dir.Path(), datadir.QueuesDir, "*"))
			if err != nil || len(left) > 0 {
				return fmt.Errorf("node %s has %q, %w", i, left, err)
			}
			return nil
		})
	}
	n.nodes["a"].cfg.CommandTimeout = 10 * time.Second
	if q := n.nodes["a"].declare(t, "q", 3); q <= next {
		t.Errorf("UID %s was used again", q)
	}
}

// A member that could not be opened is opened when it can be, and a queue whose preferred
// leader is not there gets another.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	for i, at := range []id.NodeID{"c", "a"} {
		uid := id.FirstQueueUID + id.QueueUID(i)
		path := n.nodes[at].dir.Queue(uid)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		q := n.nodes["a"].declare(t, fmt.Sprint("without ", at), 3)
		if l := n.leader(q); q != uid || l == n.nodes[at] {
			t.Errorf("queue %s is led by %s", q, l.cfg.Node)
		}
		n.nodes["a"].publish(t, q, "x", quorumq.Unlimited)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		poll(t, fmt.Sprintf("%s has the queue", at), func() error {
			m := n.nodes[at].host.queue(q)
			if m == nil {
				return errWaiting
			}
			var o quorumq.Overview
			m.group.Read(func() { o = m.machine.queue.Overview() })
			if o.Ready != 1 {
				return fmt.Errorf("%+v", o)
			}
			return nil
		})
	}
}

// A gateway that hosts no member and has nothing to say learns of a new leader, and its
// consumer goes on.
func TestIdleGateway(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c", "d")
	q := n.nodes["a"].declare(t, "q", 3)
	if n.nodes["d"].host.queue(q) != nil {
		t.Fatal("d is a member")
	}
	_, in := n.nodes["d"].consume(t, q)
	n.nodes["a"].publish(t, q, "at a", quorumq.Unlimited)
	in.await(t, "at a")
	want := []string{"at a"}
	for _, to := range []id.NodeID{"b", "c"} {
		if err := n.nodes["a"].leaders.Transfer(testContext(t), q, to); err != nil {
			t.Fatal(err)
		}
		n.nodes["a"].publish(t, q, "at "+string(to), quorumq.Unlimited)
		want = append(want, "at "+string(to))
		in.await(t, want...)
	}
	// A leader is elected to which d has no link, and tells when there is one.
	d, b := n.nodes["d"], n.nodes["b"]
	d.mux.RemovePeer("b")
	poll(t, "b has no link from d", func() error {
		if b.host.peers.presence("d").up {
			return errWaiting
		}
		return nil
	})
	if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "b"); err != nil {
		t.Fatal(err)
	}
	n.nodes["a"].publish(t, q, "no link", quorumq.Unlimited)
	d.mux.SetPeer("b", b.cfg.PeerAddr)
	want = append(want, "no link")
	in.await(t, want...)

	n.stop("b")
	n.nodes["c"].publish(t, q, "without b", quorumq.Unlimited)
	in.await(t, append(want, "without b")...)
}
