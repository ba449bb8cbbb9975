package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// testNodes are clusters of nodes in this process, on loopback, with directories that
// live as long as the test.
type testNodes struct {
	t     testing.TB
	dir   string
	join  []string
	nodes map[id.NodeID]*testNode
	edit  func(*Config)
}

type testNode struct {
	*Cluster
	leaders *recorder
	config  Config
}

// recorder is a Leaders that remembers.
type recorder struct {
	mu      sync.Mutex
	led     map[id.QueueUID]*Led
	ceased  int
	backlog int
	copies  []quorumq.Discarded
}

func (r *recorder) Leading(l *Led) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.led[l.UID()] = l
}

func (r *recorder) Ceased(l *Led) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ceased++
	if r.led[l.UID()] == l {
		delete(r.led, l.UID())
	}
}

func (r *recorder) Backlog(*Led) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backlog++
}

func (r *recorder) Purging(_ *Led, then func(uint64, func())) { then(0, func() {}) }

func (r *recorder) Copies(_ *Led, d []quorumq.Discarded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copies = append(r.copies, d...)
}

func (r *recorder) DeadLetters(*Led) DeadLetters {
	return DeadLetters{BacklogTrouble: "as recorded", Waiting: map[string]uint64{"full": 2}}
}

func (r *recorder) get(q id.QueueUID) *Led {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.led[q]
}

func newTestNodes(t testing.TB, edit func(*Config)) *testNodes {
	return &testNodes{t: t, dir: t.TempDir(), nodes: map[id.NodeID]*testNode{}, edit: edit}
}

// start starts nodes together and waits until they are ready.
func (n *testNodes) start(ids ...id.NodeID) {
	n.t.Helper()
	n.launch(ids...)
	n.ready(ids...)
}

func (n *testNodes) ready(ids ...id.NodeID) {
	n.t.Helper()
	for _, i := range ids {
		poll(n.t, fmt.Sprintf("node %s is ready", i), n.nodes[i].Ready)
	}
}

func (n *testNodes) launch(ids ...id.NodeID) {
	n.t.Helper()
	for _, i := range ids {
		c := n.config(i)
		r := &recorder{led: map[id.QueueUID]*Led{}}
		c.Leaders = r
		started, err := Start(context.Background(), c)
		if err != nil {
			n.t.Fatal(err)
		}
		n.join = append(n.join, started.members.GossipAddr())
		n.nodes[i] = &testNode{Cluster: started, leaders: r, config: c}
		n.t.Cleanup(func() { n.close(started) })
	}
}

func (n *testNodes) config(i id.NodeID) Config {
	var listen net.ListenConfig
	peers, err := listen.Listen(n.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	c := Config{
		Name: "test", Node: i, DataDir: filepath.Join(n.dir, string(i)),
		Peers: peers, PeerAddr: peers.Addr().String(), ClientAddr: "127.0.0.1:1",
		GossipAddr: "127.0.0.1:0", Join: slices.Clone(n.join),
		CommandTimeout: 10 * time.Second,
	}
	if os.Getenv("CLUSTER_TEST_LOG") != "" {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	if n.edit != nil {
		n.edit(&c)
	}
	return c
}

func (n *testNodes) close(c *Cluster) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Close(ctx); err != nil && !errors.Is(err, c.storage.Failed()) {
		n.t.Errorf("closing node %s: %v", c.cfg.Node, err)
	}
}

func (n *testNodes) stop(ids ...id.NodeID) {
	n.t.Helper()
	for _, i := range ids {
		n.close(n.nodes[i].Cluster)
		delete(n.nodes, i)
	}
}

// poll waits until f returns nil.
func poll(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// steady is for tests that count on a node to go on leading: with it a busy machine
// loses no leader. First elections do not wait for it.
func steady(c *Config) { c.SuspectAfter = 10 * time.Second }

var errWaiting = errors.New("not yet")

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (n *testNode) declare(t testing.TB, name string, size int) id.QueueUID {
	t.Helper()
	r, err := n.DeclareQueue(testContext(t), catalog.DeclareQueue{
		VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true,
	}, size, false)
	if err != nil {
		t.Fatal(err)
	}
	return r.UID
}

// queue returns the node's end of a queue as soon as its view shows it (EX-15).
func (n *testNode) queue(t testing.TB, uid id.QueueUID) *Queue {
	t.Helper()
	var end *Queue
	poll(t, fmt.Sprintf("node %s sees queue %s", n.cfg.Node, uid), func() (err error) {
		end, err = n.Queue(uid)
		return err
	})
	return end
}

// do gives a command to whoever leads the queue.
func (n *testNodes) do(q id.QueueUID, c quorumq.Command, bodies ...[]byte) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("%T is applied", c), func() error {
		err := errors.New("no node leads the queue")
		for _, node := range n.nodes {
			if node.leaders.get(q) == nil {
				continue
			}
			done := make(chan struct{})
			node.host.submit(q, raftfsm.Command{Header: quorumq.AppendCommand(nil, c), Bodies: bodies}, func(_ quorumq.Reply, e error) {
				err = e
				close(done)
			})
			<-done
		}
		return err
	})
}

func (n *testNodes) leader(q id.QueueUID) *testNode {
	n.t.Helper()
	var leader *testNode
	poll(n.t, "the queue has a leader", func() error {
		for _, node := range n.nodes {
			if node.leaders.get(q) != nil {
				leader = node
				return nil
			}
		}
		return errWaiting
	})
	return leader
}

func TestThreeNodes(t *testing.T) {
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "orders", 3)
	n.do(q, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
		Messages: []quorumq.NewMessage{{Size: 5, TTLMs: quorumq.Unlimited}},
	}, []byte("hello"))
	s, err := n.nodes["b"].QueueStatus(testContext(t), q)
	if err != nil {
		t.Fatal(err)
	}
	if s.Overview.Ready != 1 || len(s.Members) != 3 || s.Leader != "a" {
		t.Errorf("status %+v", s)
	}
}
