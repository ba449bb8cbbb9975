package transport

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// recorder is a Handler that keeps what it was called with.
type recorder struct {
	mu       sync.Mutex
	events   []string // up, down, inbound up, inbound down
	answers  []*nodev1.Frame
	requests []*nodev1.Frame
	request  func(from Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error)
	answer   func() // before an answer is kept
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) HandleRequest(from Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error) {
	r.mu.Lock()
	r.requests = append(r.requests, f)
	h := r.request
	r.mu.Unlock()
	if h != nil {
		h(from, f, reply)
	}
}

func (r *recorder) HandleAnswer(_ Peer, f *nodev1.Frame) {
	r.mu.Lock()
	before := r.answer
	r.mu.Unlock()
	if before != nil {
		before()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, f)
}

func (r *recorder) PeerUp(p Peer)   { r.note("up %s/%d", p.Node, p.Epoch) }
func (r *recorder) PeerDown(p Peer) { r.note("down %s/%d", p.Node, p.Epoch) }
func (r *recorder) Inbound(p Peer, up bool) {
	r.note("inbound %s/%d %v", p.Node, p.Epoch, up)
}

func (r *recorder) log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

func (r *recorder) count() (answers, requests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.answers), len(r.requests)
}

// node is a Mux that serves on loopback.
type node struct {
	*Mux
	recorder *recorder
	address  string
	served   chan error
}

func testConfig(name string, epoch int) Config {
	return Config{
		Node: id.NodeID(name), Epoch: id.Epoch(epoch), Cluster: "test", Key: []byte("0123456789abcdef"),
		RetryMin: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond, RetryRefuse: 20 * time.Millisecond,
		PingTimeout: 20 * time.Second, DetourAfter: time.Hour, // only tests of these want a connection cut, or a detour
	}
}

// start serves at a free port.
func start(t testing.TB, c Config) *node {
	t.Helper()
	rec, ok := c.Handler.(*recorder)
	if !ok {
		rec = &recorder{}
		c.Handler = rec
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Mux: m, recorder: rec, address: l.Addr().String(), served: make(chan error, 1)}
	go func() { n.served <- m.Serve(l) }()
	t.Cleanup(func() { n.stop(t) })
	return n
}

func (n *node) stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("close: %v\n%s", err, stacks())
	}
}

// meet makes all nodes peers of one another.
func meet(nodes ...*node) {
	for _, a := range nodes {
		for _, b := range nodes {
			a.SetPeer(b.config.Node, b.address)
		}
	}
}

// until polls a condition of real sockets.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s, still not: %s\n%s", what, stacks())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func connected(t testing.TB, a, b *node) {
	t.Helper()
	until(t, fmt.Sprintf("%s is connected to %s", a.config.Node, b.config.Node), func() bool {
		e, up := a.Connected(b.config.Node)
		return up && e == b.config.Epoch
	})
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// noneLeft fails if goroutines of this package or of gRPC are left.
func noneLeft(t *testing.T) {
	t.Helper()
	var left []string
	deadline := time.Now().Add(30 * time.Second)
	for {
		left = left[:0]
		for _, g := range strings.Split(stacks(), "\n\n") {
			if (strings.Contains(g, "cluster/transport.") || strings.Contains(g, "google.golang.org/grpc")) &&
				!strings.Contains(g, "testing.tRunner") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left after Close:\n%s", len(left), strings.Join(left, "\n\n"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// lines is a slog handler's writer that keeps lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) kept() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (l *lines) containing(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if strings.Contains(line, s) {
			n++
		}
	}
	return n
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// fsm keeps the entries that it applied.
type fsm struct {
	mu   sync.Mutex
	seen []string
	sum  uint32
}

func (f *fsm) Apply(l *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(string(l.Data))
	return nil
}

// state returns a sum over all entries, and the last of them.
func (f *fsm) state() (sum uint32, last string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.seen); n > 0 {
		last = f.seen[n-1]
	}
	return f.sum, last
}

func (f *fsm) add(entry string) {
	f.seen = append(f.seen, entry)
	f.sum = crc32.Update(f.sum, crc32.IEEETable, []byte(entry))
}

func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fsmSnapshot(strings.Join(f.seen, "\n")), nil
}

func (f *fsm) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.sum = nil, 0
	for _, entry := range strings.Split(string(b), "\n") {
		f.add(entry)
	}
	return nil
}

type fsmSnapshot string

func (s fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := io.WriteString(sink, string(s)); err != nil {
		return err
	}
	return sink.Close()
}

func (s fsmSnapshot) Release() {}

// member is a real raft member; its stores outlive it.
type member struct {
	*raft.Raft
	fsm       *fsm
	store     *raft.InmemStore
	snapshots *raft.InmemSnapshotStore
	transport raft.Transport
}

func run(t testing.TB, n *node, g id.GroupID, servers []raft.Server, old *member) *member {
	t.Helper()
	m := &member{fsm: &fsm{}, store: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore()}
	if old != nil {
		m.store, m.snapshots = old.store, old.snapshots
	}
	m.transport = n.Raft(g)
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.config.Node)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 400*time.Millisecond
	c.CommitTimeout = 20 * time.Millisecond
	c.TrailingLogs = 10
	c.Logger = hclog.NewNullLogger()
	if old == nil {
		conf := raft.Configuration{Servers: servers}
		if err := raft.BootstrapCluster(c, m.store, m.store, m.snapshots, m.transport, conf); err != nil {
			t.Fatal(err)
		}
	}
	r, err := raft.NewRaft(c, m.fsm, m.store, m.store, m.snapshots, m.transport)
	if err != nil {
		t.Fatal(err)
	}
	m.Raft = r
	t.Cleanup(func() { m.halt(t) })
	return m
}

func (m *member) halt(t testing.TB) {
	t.Helper()
	if c, ok := m.transport.(raft.WithClose); ok {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := m.Shutdown().Error(); err != nil {
		t.Error(err)
	}
}

func servers(nodes ...*node) []raft.Server {
	var s []raft.Server
	for _, n := range nodes {
		s = append(s, raft.Server{ID: raft.ServerID(n.config.Node), Address: raft.ServerAddress(n.config.Node)})
	}
	return s
}

// leader waits until exactly one of the members leads and says so to all.
func leader(t testing.TB, ms ...*member) *member {
	t.Helper()
	var l *member
	until(t, "a leader is known to all", func() bool {
		l = nil
		for _, m := range ms {
			if m.State() == raft.Leader {
				l = m
			}
		}
		if l == nil {
			return false
		}
		_, who := l.LeaderWithID()
		for _, m := range ms {
			if _, w := m.LeaderWithID(); w != who {
				return false
			}
		}
		return true
	})
	return l
}

// entries returns log entries of one size.
func entries(count, bytesEach int) []*raft.Log {
	all := make([]*raft.Log, count)
	for i := range all {
		all[i] = &raft.Log{Index: uint64(i + 1), Term: 1, Type: raft.LogCommand, Data: bytes.Repeat([]byte{'x'}, bytesEach)}
	}
	return all
}

// header is that of a call in the name of a node.
func header(name string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(name), Addr: []byte(name)}
}
