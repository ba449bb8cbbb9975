package liveness

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

const firstGroup = 1024

// machine counts what it applies.
type machine struct{ n uint64 }

func (m *machine) Apply(raftfsm.Meta, []byte, int) (uint64, struct{}, error) {
	m.n++
	return m.n, struct{}{}, nil
}
func (m *machine) Now() int64 { return 0 }

func (m *machine) Lead(id.NodeID, uint64) []byte { return nil }
func (m *machine) HeldBytes() uint64             { return 0 }
func (m *machine) Freeze() raftfsm.Frozen        { return frozen(m.n) }

func (m *machine) Restore(b []byte) error {
	m.n = binary.LittleEndian.Uint64(b)
	return nil
}

// frozen is a machine's state.
type frozen uint64

func (f frozen) Live() iter.Seq[raftfsm.BodyRun] { return func(func(raftfsm.BodyRun) bool) {} }
func (f frozen) AppendSnapshot(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(f))
}

// memory is a storage whose writes can be made to hang.
type memory struct {
	*raft.InmemStore
	raftfsm.Synchronous
	disk *disk
}

type disk struct {
	mu     sync.Mutex
	moves  *sync.Cond
	frozen bool
}

func newDisk() *disk {
	d := &disk{}
	d.moves = sync.NewCond(&d.mu)
	return d
}

func (d *disk) freeze(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = on
	d.moves.Broadcast()
}

func (d *disk) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.frozen {
		d.moves.Wait()
	}
}

func (m memory) StoreLogs(l []*raft.Log) error { m.disk.wait(); return m.InmemStore.StoreLogs(l) }
func (m memory) Set(k, v []byte) error         { m.disk.wait(); return m.InmemStore.Set(k, v) }
func (m memory) SetUint64(k []byte, v uint64) error {
	m.disk.wait()
	return m.InmemStore.SetUint64(k, v)
}
func (m memory) Entry(i uint64, l *raft.Log) error                  { return m.GetLog(i, l) }
func (m memory) StoreRetained(entries []*raft.Log) error            { return m.InmemStore.StoreLogs(entries) }
func (m memory) DropRetained(uint64) error                          { return nil }
func (m memory) Ahead(uint64, uint64) []raft.Log                    { return nil }
func (m memory) Newest(uint64, int64) (entries uint64, bytes int64) { return 0, 0 }
func (m memory) Retain(uint64, iter.Seq2[uint64, uint64]) error     { return nil }
func (m memory) Close() error                                       { return nil }

type group = raftfsm.Group[uint64, struct{}]

// changes are groups of which the Manager has to be notified.
type changes struct {
	wake chan struct{} // of capacity 1
	mu   sync.Mutex
	due  []id.GroupID
}

func (c *changes) add(g id.GroupID) {
	c.mu.Lock()
	c.due = append(c.due, g)
	c.mu.Unlock()
	wait.Wake(c.wake)
}

func (c *changes) notify(ctx context.Context, n *node) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		due := c.due
		c.due = nil
		c.mu.Unlock()
		for _, g := range due {
			if n.misses == 0 || rand.IntN(n.misses) > 0 {
				n.manager.Changed(g)
			}
		}
	}
}

// node is one node: connections, groups and its Manager.
type node struct {
	said    atomic.Int64 // how often all peers were notified at once
	t       testing.TB
	id      id.NodeID
	epoch   id.Epoch
	mux     *transport.Mux
	manager *Manager
	address string
	dir     string
	disk    *disk
	stop    context.CancelFunc
	running sync.WaitGroup
	ended   chan struct{} // closed when the manager does nothing more after stop

	misses int // one of so many changes is not reported; 0: all are

	changes changes

	appends, votes atomic.Int64

	mu      sync.Mutex
	groups  map[id.GroupID]*group
	stores  map[id.GroupID]*raft.InmemStore
	opening map[id.GroupID]bool
	opens   sync.WaitGroup
	killed  bool

	end sync.Once
}

func (n *node) HandleRequest(transport.Peer, *nodev1.Frame, func(*nodev1.Frame) error) {}
func (n *node) HandleAnswer(transport.Peer, *nodev1.Frame)                             {}
func (n *node) PeerUp(p transport.Peer)                                                { n.manager.ConnectionChanged(p.Node, true) }

func (n *node) PeerDown(p transport.Peer)    { n.manager.ConnectionChanged(p.Node, false) }
func (n *node) Inbound(transport.Peer, bool) {}

type calls struct {
	nodev1.UnimplementedNodeServer
	n *node
}

func (c calls) Survey(_ context.Context, r *nodev1.SurveyRequest) (*nodev1.SurveyResponse, error) {
	return c.n.manager.Survey(r), nil
}

func (n *node) Silent(p id.NodeID) (time.Duration, bool)      { return n.mux.Silent(p) }
func (n *node) Overdue(p id.NodeID) time.Duration             { return n.mux.Overdue(p) }
func (n *node) Client(p id.NodeID) (nodev1.NodeClient, error) { return n.mux.Client(p) }

func (n *node) Say() {
	n.said.Add(1)
	n.mux.Say()
}

func startNode(t testing.TB, name id.NodeID, epoch id.Epoch, dir string, stores map[id.GroupID]*raft.InmemStore) *node {
	t.Helper()
	n := &node{
		t: t, id: name, epoch: epoch, dir: dir, disk: newDisk(),
		groups: map[id.GroupID]*group{}, stores: stores, opening: map[id.GroupID]bool{},
		changes: changes{wake: make(chan struct{}, 1)},
	}
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("LIVENESS_TEST_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", string(name))
	}
	var err error
	if n.manager, err = New(Config{Node: name, Transport: n, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	n.mux, err = transport.New(transport.Config{
		Node: name, Epoch: epoch, Cluster: "test", Handler: n, Calls: calls{n: n},
		Heartbeats: n.manager, PingEvery: 10 * time.Second, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.running.Go(func() { _ = n.mux.Serve(l) })
	n.ended = make(chan struct{})
	n.running.Go(func() { defer close(n.ended); n.manager.Run(ctx) })
	n.running.Go(func() { n.changes.notify(ctx, n) })
	t.Cleanup(n.kill)
	return n
}

// tryOpen opens a member that is not open yet, unless the node was killed.
func (n *node) tryOpen(g id.GroupID) bool {
	n.mu.Lock()
	can := !n.killed && n.groups[g] == nil && !n.opening[g]
	if can {
		n.opening[g] = true
		n.opens.Add(1)
	}
	n.mu.Unlock()
	if can {
		n.open(g)
		n.mu.Lock()
		delete(n.opening, g)
		n.mu.Unlock()
		n.opens.Done()
	}
	return can
}

func (n *node) closeGroup(g id.GroupID) {
	n.mu.Lock()
	m := n.groups[g]
	delete(n.groups, g)
	n.mu.Unlock()
	if m != nil {
		n.manager.Remove(g)
		_ = m.Close()
	}
}

// open opens a member; the manager knows it from then on.
func (n *node) open(g id.GroupID, voters ...id.NodeID) {
	n.t.Helper()
	n.mu.Lock()
	store := n.stores[g]
	if store == nil {
		store = raft.NewInmemStore()
		n.stores[g] = store
	}
	n.mu.Unlock()
	storage := memory{InmemStore: store, disk: n.disk}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(n.dir, g.String()), storage)
	if err != nil {
		n.t.Fatal(err)
	}
	through, ok := n.mux.Raft(g).(groupTransport)
	if !ok {
		n.t.Fatal("the group's transport lacks something")
	}
	// A node's one goroutine notifies its Manager of changes, as a host does.
	m, err := raftfsm.Open(raftfsm.Config[uint64, struct{}]{
		OnChange: func() { n.changes.add(g) },
		Group:    g, Node: n.id, Machine: &machine{}, Storage: storage, Snapshots: snapshots,
		Transport: spy{through, &n.appends, &n.votes}, Driven: true, StallTimeout: 1500 * time.Millisecond,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	if len(voters) > 0 {
		if err := m.Bootstrap(voters); err != nil {
			n.t.Fatal(err)
		}
	}
	n.mu.Lock()
	n.groups[g] = m
	n.mu.Unlock()
	n.manager.Add(g, m)
	n.changes.add(g)
}

func (n *node) group(g id.GroupID) *group {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.groups[g]
}

// kill drops all connections, as the end of the process does. A second call waits for the first.
func (n *node) kill() { n.end.Do(n.die) }

func (n *node) die() {
	n.disk.freeze(false)
	n.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.mux.Close(ctx); err != nil {
		n.t.Error(err)
	}
	n.mu.Lock()
	n.killed = true
	n.mu.Unlock()
	n.opens.Wait()
	n.mu.Lock()
	groups := n.groups
	n.groups = map[id.GroupID]*group{}
	n.mu.Unlock()
	var all sync.WaitGroup
	slots := make(chan struct{}, 64)
	for _, g := range groups {
		slots <- struct{}{}
		all.Go(func() { _ = g.Close(); <-slots })
	}
	all.Wait()
	n.running.Wait()
}

// nodes are a cluster; each pair talks through relays if there are any.
type nodes struct {
	t      testing.TB
	all    []*node
	relays map[[2]id.NodeID]*relay // of the connection that the first opens to the second
}

func startNodes(t testing.TB, relayed bool) *nodes {
	t.Helper()
	return startSome(t, 3, relayed)
}

func startSome(t testing.TB, count int, relayed bool) *nodes {
	t.Helper()
	ns := &nodes{t: t, relays: map[[2]id.NodeID]*relay{}}
	for i := range count {
		ns.all = append(ns.all, startNode(t, id.NodeID(fmt.Sprintf("n%d", i+1)), 1, t.TempDir(), map[id.GroupID]*raft.InmemStore{}))
	}
	for _, a := range ns.all {
		for _, b := range ns.all {
			if a == b {
				continue
			}
			to := b.address
			if relayed {
				r := newRelay(t, to)
				ns.relays[[2]id.NodeID{a.id, b.id}] = r
				to = r.address
			}
			a.mux.SetPeer(b.id, to)
		}
	}
	return ns
}

// open opens groups on all nodes, numbered from firstGroup.
func (ns *nodes) open(count int) {
	ns.t.Helper()
	var voters []id.NodeID
	for _, n := range ns.all {
		voters = append(voters, n.id)
	}
	for i := range count {
		for _, n := range ns.all {
			n.open(firstGroup+id.GroupID(i), voters...)
		}
	}
}

// hold holds up what a node says, what it hears, or both, on all connections.
func (ns *nodes) hold(n *node, says, hears, held bool) {
	for pair, r := range ns.relays {
		if pair[0] == n.id || pair[1] == n.id {
			opened := pair[0] == n.id
			if says {
				r.hold(map[bool]int{true: toward, false: back}[opened], held)
			}
			if hears {
				r.hold(map[bool]int{true: back, false: toward}[opened], held)
			}
		}
	}
}

// leader returns the node that leads among those given, nil if none or more than one.
func leader(g id.GroupID, among ...*node) *node {
	var l *node
	for _, n := range among {
		if m := n.group(g); m != nil && m.Leading() {
			if l != nil {
				return nil
			}
			l = n
		}
	}
	return l
}

// led waits until all groups have a leader that all those nodes know, and returns how long.
func (ns *nodes) led(groups int, among ...*node) time.Duration {
	ns.t.Helper()
	begin := time.Now()
	open := make([]id.GroupID, groups)
	for i := range open {
		open[i] = firstGroup + id.GroupID(i)
	}
	for len(open) > 0 {
		if time.Since(begin) > 60*time.Second {
			g := open[0]
			for _, n := range among {
				l, term := n.group(g).Leader()
				ns.t.Logf("%s: group %s: %v, leader %q, term %d, %+v", n.id, g, n.group(g).State(), l, term, n.manager.Stats())
			}
			ns.t.Fatalf("%d of %d groups have no leader after a minute", len(open), groups)
		}
		var left []id.GroupID
		for _, g := range open {
			l := leader(g, among...)
			known := l != nil
			for _, n := range among {
				if known {
					who, _ := n.group(g).Leader()
					known = who == l.id
				}
			}
			if !known {
				left = append(left, g)
			}
		}
		if open = left; len(open) > 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	return time.Since(begin)
}

func (ns *nodes) propose(g id.GroupID, among ...*node) {
	ns.t.Helper()
	until(ns.t, fmt.Sprintf("a command of group %s is applied", g), func() bool {
		l := leader(g, among...)
		if l == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := l.group(g).Propose(ctx, command())
		return err == nil
	})
}

// others returns all nodes but one.
func (ns *nodes) others(n *node) []*node {
	var rest []*node
	for _, o := range ns.all {
		if o != n {
			rest = append(rest, o)
		}
	}
	return rest
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func command() raftfsm.Command { return raftfsm.Command{Header: []byte("x")} }
