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
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// testNodes are clusters of nodes in this process, on loopback, with directories that
// live as long as the test.
type testNodes struct {
	t     testing.TB
	name  string // of the cluster; no other one in this process has it
	dir   string
	join  []string
	nodes map[id.NodeID]*testNode
	edit  func(*Config)
}

type testNode struct {
	*Cluster
	config Config
}

// leading returns the queue's term if this node leads it, nil otherwise.
func (n *testNode) leading(q id.QueueUID) *replica.Led {
	m := n.host.Member(q)
	if m == nil {
		return nil
	}
	return m.Led()
}

// newTestNodes names its cluster, for a node may get an address that one of another test had
// before: nodes that still know it would meet one that answers for theirs.
func newTestNodes(t testing.TB, edit func(*Config)) *testNodes {
	dir := t.TempDir()
	return &testNodes{t: t, name: t.Name() + "/" + filepath.Base(dir), dir: dir, nodes: map[id.NodeID]*testNode{}, edit: edit}
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
		started, err := Start(context.Background(), c)
		if err != nil {
			n.t.Fatal(err)
		}
		n.join = append(n.join, started.members.GossipAddr())
		n.nodes[i] = &testNode{Cluster: started, config: c}
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
		Name: n.name, Node: i, DataDir: filepath.Join(n.dir, string(i)),
		Peers: peers, PeerAddr: peers.Addr().String(), ClientAddr: "127.0.0.1:1",
		GossipAddr: "127.0.0.1:0", Join: slices.Clone(n.join),
		CommandTimeout:     10 * time.Second,
		PropagationTimeout: 2 * time.Second, // a busy machine may leave another node behind for longer than the default
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

func (n *testNode) declare(t testing.TB, name string, size int, arguments ...message.Field) id.QueueUID {
	t.Helper()
	arguments = append(arguments, number("x-quorum-initial-group-size", int64(size)))
	r, err := n.operator.DeclareQueue(testContext(t), catalog.DeclareQueue{
		VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Arguments: arguments,
	}, size, false)
	if err != nil {
		t.Fatal(err)
	}
	return r.UID
}

// number and text are arguments of queues.
func number(name string, n int64) message.Field {
	return message.Field{Name: name, Value: message.Int64(n)}
}

func text(name, s string) message.Field { return message.Field{Name: name, Value: message.String(s)} }

// atLeastOnce are arguments of a queue whose dead letters wait: there is no such exchange.
func atLeastOnce() []message.Field {
	return []message.Field{
		text("x-dead-letter-exchange", "nowhere"), text("x-dead-letter-strategy", "at-least-once"), text("x-overflow", "reject-publish"),
	}
}

// queue returns the node's end of a queue as soon as its view shows it (EX-15).
func (n *testNode) queue(t testing.TB, uid id.QueueUID) *gateway.Queue {
	t.Helper()
	var end *gateway.Queue
	poll(t, fmt.Sprintf("node %s sees queue %s", n.cfg.Node, uid), func() (err error) {
		end, err = n.Gateway().Queue(uid)
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
			if node.leading(q) == nil {
				continue
			}
			done := make(chan struct{})
			node.host.Submit(q, raftfsm.Command{Header: quorumq.AppendCommand(nil, c), Bodies: bodies}, func(_ quorumq.Reply, e error) {
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
			if node.leading(q) != nil {
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
	s, err := n.nodes["b"].leaders.Status(testContext(t), q)
	if err != nil {
		t.Fatal(err)
	}
	if s.Overview.Ready != 1 || len(s.Members) != 3 || s.Leader != "a" {
		t.Errorf("status %+v", s)
	}
}
