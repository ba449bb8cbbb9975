package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// answering is a transport that takes what a host answers unless before refuses it.
type answering struct {
	replica.Transport
	before func(*nodev1.Frame) error
}

func (l answering) Answer(p transport.Peer, f *nodev1.Frame, unsent func()) error {
	if err := l.before(f); err != nil {
		return err
	}
	return l.Transport.Answer(p, f, unsent)
}

// Deliveries that find no room on a connection come later, all of them and in order; so do
// those beyond the bytes of one answer to Resume.
func TestLostDeliveries(t *testing.T) {
	t.Parallel()
	const most = 1000
	// Once it is full, the connection has room for every third frame of deliveries only.
	var full atomic.Bool
	var frames atomic.Int64
	n := newTestNodes(t, func(cfg *Config) {
		steady(cfg)
		cfg.hosting = func(host *replica.Config) {
			host.MaxHeldBytes = most
			host.Transport = answering{host.Transport, func(f *nodev1.Frame) error {
				if full.Load() && f.GetDeliveries() != nil && frames.Add(1)%3 != 0 {
					return fmt.Errorf("%w: made up", transport.ErrStreamFull)
				}
				return nil
			}}
		}
	})
	n.start("a", "b", "c")
	a := n.nodes["a"]
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
	type heldResult struct {
		ds   []traffic.Delivery
		last quorumq.MsgID
		err  error
	}
	answers := make(chan heldResult, 1)
	a.host.Held(q, c.Token().Consumer, 11, traffic.NoRoomLimit, func(h traffic.Holding, err error) { answers <- heldResult{h.Deliveries, h.Last, err} })
	got := <-answers
	if got.err != nil || len(got.ds) != 4 || got.last != 15 {
		t.Errorf("held: %d up to %d, %v", len(got.ds), got.last, got.err)
	}
	n.nodes["c"].host.Held(q, c.Token().Consumer, 0, traffic.NoRoomLimit, func(_ traffic.Holding, err error) { answers <- heldResult{err: err} })
	if got := <-answers; !errors.As(got.err, new(*raftfsm.NotLeaderError)) {
		t.Errorf("held on a follower: %v", got.err)
	}
	a.host.Held(q+1, c.Token().Consumer, 0, traffic.NoRoomLimit, func(_ traffic.Holding, err error) { answers <- heldResult{err: err} })
	if got := <-answers; !errors.Is(got.err, traffic.ErrNoSuchQueue) {
		t.Errorf("held of no queue: %v", got.err)
	}
}

// queueQ declares the queue of the next tests.
func queueQ() catalog.DeclareQueue {
	return catalog.DeclareQueue{VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true}
}

// notStarted declares a queue at a which no majority can start, until the paths that it returns are removed.
func (n *testNodes) notStarted(
	declare func(context.Context, catalog.DeclareQueue, int, bool) (catalog.Reply, error),
) (inTheWay []string, uid id.QueueUID, err error) {
	n.t.Helper()
	for _, i := range []id.NodeID{"b", "c"} {
		// A file where the directory should be.
		path := n.nodes[i].dir.Queue(id.FirstQueueUID)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			n.t.Fatal(err)
		}
		inTheWay = append(inTheWay, path)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), 6*time.Second)
	defer cancel()
	r, err := declare(ctx, queueQ(), 3, false)
	if !errors.Is(err, traffic.ErrUnavailable) || !strings.Contains(err.Error(), `"q"`) {
		n.t.Fatalf("declare: %v", err)
	}
	return inTheWay, r.UID, err
}

// RE-1: a queue that no majority could start in time stays, with what is published to it, and works once one can.
func TestNotLed(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	inTheWay, q, err := n.notStarted(n.nodes["a"].operator.DeclareQueue)
	if !errors.Is(err, traffic.ErrNotLed) || q != id.FirstQueueUID {
		t.Fatalf("declare: queue %s, %v", q, err)
	}
	published := make(chan error, 1)
	err = n.nodes["b"].queue(t, q).Enqueue(testContext(t), quorumq.NewMessage{Size: 1, TTLMs: quorumq.Unlimited}, []byte("x"),
		func(err error) { published <- err })
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range inTheWay {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-published; err != nil {
		t.Errorf("publish: %v", err)
	}
	if r, err := n.nodes["c"].operator.DeclareQueue(testContext(t), queueQ(), 3, false); err != nil || r.UID != q || r.Created {
		t.Errorf("declared again: %+v, %v", r, err)
	}
	if s, err := n.nodes["c"].leaders.Status(testContext(t), q); err != nil || s.Overview.Ready != 1 {
		t.Errorf("%d messages, %v", s.Overview.Ready, err)
	}
}

// RE-1: nothing remains of a queue with a made-up name of which no majority could start. Once one can, the
// name is free.
func TestUndeclared(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	if _, _, err := n.notStarted(n.nodes["a"].operator.DeclareUnnamed); errors.Is(err, traffic.ErrNotLed) {
		t.Errorf("it is said to stay: %v", err)
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
	if q := n.nodes["a"].declare(t, "q", 3); q <= id.FirstQueueUID {
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
			m := n.nodes[at].host.Member(q)
			if m == nil {
				return errWaiting
			}
			var o quorumq.Overview
			m.Read(func(state *quorumq.Queue) { o = state.Overview() })
			if o.Ready != 1 {
				return fmt.Errorf("%+v", o)
			}
			return nil
		})
	}
}

// A gateway that hosts no member and has nothing to say learns of a new leader, and its
// consumer continues.
func TestIdleGateway(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c", "d")
	q := n.nodes["a"].declare(t, "q", 3)
	if n.nodes["d"].host.Member(q) != nil {
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
	// A leader is elected to which d has no connection, and it reports itself when there is one.
	d, b := n.nodes["d"], n.nodes["b"]
	d.mux.RemovePeer("b")
	poll(t, "b has no link from d", func() error {
		err := b.mux.Answer(transport.Peer{Node: "d", Epoch: d.epoch}, &nodev1.Frame{}, nil)
		if !errors.Is(err, transport.ErrNotConnected) {
			return fmt.Errorf("%w: %w", errWaiting, err)
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
