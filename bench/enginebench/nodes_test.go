//go:build unix

package enginebench

import (
	"context"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

const (
	firstGroup = 1024
	members    = 3
	patience   = 60 * time.Second // bounds every wait for a condition
)

// store is where the groups of a node keep their entries.
type store string

const (
	shared   store = "shared"
	bolt     store = "bolt"
	inMemory store = "memory"
)

// counter is a machine that does next to nothing.
type counter struct{ n uint64 }

func (c *counter) Apply(raftfsm.Meta, []byte, int) (uint64, struct{}, error) {
	c.n++
	return c.n, struct{}{}, nil
}
func (c *counter) Now() int64 { return 0 }

func (c *counter) Lead(id.NodeID, uint64) []byte { return nil }
func (c *counter) HeldBytes() uint64             { return 0 }
func (c *counter) Freeze() raftfsm.Frozen        { return nothing{} }
func (c *counter) Restore([]byte) error          { return nil }

type nothing struct{}

func (nothing) Live() iter.Seq[raftfsm.BodyRun] { return func(func(raftfsm.BodyRun) bool) {} }
func (nothing) AppendSnapshot(b []byte) []byte  { return b }

// silent takes the traffic of queues, of which there is none.
type silent struct{}

func (silent) HandleRequest(transport.Peer, *nodev1.Frame, func(*nodev1.Frame) error) {}
func (silent) HandleAnswer(transport.Peer, *nodev1.Frame)                             {}
func (silent) PeerUp(transport.Peer)                                                  {}
func (silent) PeerDown(transport.Peer)                                                {}
func (silent) Inbound(transport.Peer, bool)                                           {}

// volatile is a log that no restart finds again.
type volatile struct {
	*raft.InmemStore
	raftfsm.Synchronous
}

func (v volatile) Entry(i uint64, l *raft.Log) error                  { return v.GetLog(i, l) }
func (v volatile) StoreRetained(entries []*raft.Log) error            { return v.StoreLogs(entries) }
func (v volatile) DropRetained(uint64) error                          { return nil }
func (v volatile) Ahead(uint64, uint64) []raft.Log                    { return nil }
func (v volatile) Newest(uint64, int64) (entries uint64, bytes int64) { return 0, 0 }
func (v volatile) Retain(uint64, iter.Seq2[uint64, uint64]) error     { return nil }
func (v volatile) Close() error                                       { return nil }

// node is one node: its links and, if it has one, its shared log.
type node struct {
	id  id.NodeID
	dir string
	mux *transport.Mux
	log *wal.Log
}

// world is three nodes whose groups keep their entries in one kind of store.
type world[R, E any] struct {
	b       *testing.B
	store   store
	nodes   []*node
	leaders []*raftfsm.Group[R, E]
	all     []*raftfsm.Group[R, E]
}

// worldConfig says what newWorld starts.
type worldConfig[R, E any] struct {
	store   store
	dir     string // "": the tests' temporary directory
	groups  int
	machine func() raftfsm.Machine[R, E]
	tune    func(*raftfsm.Config[R, E]) // may be nil
}

// newWorld starts nodes and groups and waits until each group has a leader, group i on
// node i modulo 3.
func newWorld[R, E any](b *testing.B, c worldConfig[R, E]) *world[R, E] {
	b.Helper()
	w := &world[R, E]{b: b, store: c.store}
	dir, err := os.MkdirTemp(c.dir, "quorate-bench-") //nolint:usetesting // on the file system that is asked for
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	var stopped sync.WaitGroup
	b.Cleanup(stopped.Wait)
	var addresses []string
	for i := range members {
		n := &node{id: id.NodeID(fmt.Sprintf("n%d", i+1)), dir: filepath.Join(dir, fmt.Sprint(i))}
		addresses = append(addresses, w.startNode(n, &stopped))
		w.nodes = append(w.nodes, n)
	}
	b.Cleanup(w.close)
	voters := make([]id.NodeID, 0, members)
	for _, n := range w.nodes {
		voters = append(voters, n.id)
		for i, o := range w.nodes {
			if o != n {
				n.mux.SetPeer(o.id, addresses[i])
			}
		}
	}
	w.openAll(c, voters)
	return w
}

func (w *world[R, E]) startNode(n *node, stopped *sync.WaitGroup) (address string) {
	w.b.Helper()
	fail := func(err error) {
		w.b.Helper()
		if err != nil {
			w.b.Fatal(err)
		}
	}
	walDir := filepath.Join(n.dir, "wal")
	fail(os.MkdirAll(walDir, 0o750))
	if w.store == shared {
		d, err := vfs.OS(walDir)
		fail(err)
		n.log, err = wal.Open(d, wal.Config{LowBytes: -1})
		fail(err)
	}
	var err error
	n.mux, err = transport.New(transport.Config{Node: n.id, Epoch: 1, Cluster: "bench", Handler: silent{}})
	fail(err)
	var lc net.ListenConfig
	l, err := lc.Listen(w.b.Context(), "tcp", "127.0.0.1:0")
	fail(err)
	stopped.Go(func() { _ = n.mux.Serve(l) })
	return l.Addr().String()
}

func (w *world[R, E]) openAll(c worldConfig[R, E], voters []id.NodeID) {
	w.b.Helper()
	byGroup := make([][]*raftfsm.Group[R, E], c.groups)
	errs := make(chan error, len(w.nodes))
	var mu sync.Mutex
	for _, n := range w.nodes { // nodes open theirs at the same time, as nodes do
		go func() {
			for g := range c.groups {
				opened, err := w.open(c, n, firstGroup+id.GroupID(g))
				if err == nil {
					err = opened.Bootstrap(voters)
				}
				if err != nil {
					errs <- err
					return
				}
				mu.Lock()
				byGroup[g] = append(byGroup[g], opened)
				w.all = append(w.all, opened)
				mu.Unlock()
			}
			errs <- nil
		}()
	}
	for range w.nodes {
		if err := <-errs; err != nil {
			w.b.Fatal(err)
		}
	}
	w.elect(byGroup)
}

func (w *world[R, E]) open(c worldConfig[R, E], n *node, g id.GroupID) (*raftfsm.Group[R, E], error) {
	dir := filepath.Join(n.dir, g.String())
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	var s raftfsm.Storage
	var err error
	switch w.store {
	case shared:
		s, err = n.log.Group(g)
	case bolt:
		s, err = raftfsm.OpenBolt(filepath.Join(dir, "log.db"))
	case inMemory:
		s = volatile{InmemStore: raft.NewInmemStore()}
	}
	if err != nil {
		return nil, err
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(dir, "snapshots"), s)
	if err != nil {
		return nil, err
	}
	config := raftfsm.Config[R, E]{
		Group: g, Node: n.id, Machine: c.machine(), Storage: s, Snapshots: snapshots,
		Transport: n.mux.Raft(g), Driven: true,
	}
	if c.tune != nil {
		c.tune(&config)
	}
	return raftfsm.Open(config)
}

// elect makes one member of each group its leader, and waits until it is.
func (w *world[R, E]) elect(byGroup [][]*raftfsm.Group[R, E]) {
	w.b.Helper()
	for g, group := range byGroup {
		chosen := group[g%members]
		ctx, cancel := context.WithTimeout(w.b.Context(), patience)
		for tries := 0; !chosen.Leading(); tries++ {
			if tries%500 == 0 { // the first time, and when that has come to nothing
				if err := chosen.StepDown(ctx, 0); err != nil {
					w.b.Fatal(err)
				}
				if err := chosen.Campaign(ctx); err != nil {
					w.b.Fatal(err)
				}
			}
			if ctx.Err() != nil {
				w.b.Fatalf("%s: group %d of %d has no leader after %v", w.store, g, len(byGroup), patience)
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
		w.leaders = append(w.leaders, chosen)
	}
}

func (w *world[R, E]) close() {
	slots := make(chan struct{}, 64)
	var closing sync.WaitGroup
	for _, g := range w.all {
		slots <- struct{}{}
		closing.Go(func() { _ = g.Close(); <-slots })
	}
	closing.Wait()
	for _, n := range w.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := n.mux.Close(ctx); err != nil {
			w.b.Error(err)
		}
		cancel()
		if n.log != nil {
			if err := n.log.Close(); err != nil {
				w.b.Error(err)
			}
		}
	}
}
