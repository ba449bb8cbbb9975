package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// memory is a storage without a disk, to compare with.
type memory struct {
	*raft.InmemStore
	Synchronous
	mu       sync.RWMutex
	retained map[uint64]raft.Log
}

func newMemory() *memory {
	return &memory{InmemStore: raft.NewInmemStore(), retained: map[uint64]raft.Log{}}
}

func (m *memory) Entry(index uint64, out *raft.Log) error {
	if err := m.GetLog(index, out); err == nil {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	l, ok := m.retained[index]
	if !ok {
		return raft.ErrLogNotFound
	}
	*out = l
	return nil
}

func (m *memory) DeleteRange(from, to uint64) error {
	m.mu.Lock()
	for i := from; i <= to; i++ {
		var l raft.Log
		if m.GetLog(i, &l) == nil {
			m.retained[i] = l
		}
	}
	m.mu.Unlock()
	return m.InmemStore.DeleteRange(from, to)
}

func (m *memory) StoreRetained(entries []*raft.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range entries {
		m.retained[l.Index] = *l
	}
	return nil
}

func (m *memory) DropRetained(above uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.retained, func(i uint64, _ raft.Log) bool { return i > above })
	return nil
}

func (m *memory) Ahead(uint64, uint64) []raft.Log { return nil }

func (m *memory) Newest(uint64, int64) (entries uint64, bytes int64) { return 0, 0 }
func (m *memory) Retain(upTo uint64, live iter.Seq2[uint64, uint64]) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[uint64]raft.Log{}
	for i, l := range m.retained {
		if i > upTo {
			kept[i] = l
		}
	}
	for from, to := range live {
		for i := from; i <= to; i++ {
			if l, ok := m.retained[i]; ok {
				kept[i] = l
			}
		}
	}
	m.retained = kept
	return nil
}

func (m *memory) Close() error { return nil }

// counter is a machine that does next to nothing.
type counter struct{ n uint64 }

func (c *counter) Apply(Meta, []byte, int) (uint64, struct{}, error) {
	c.n++
	return c.n, struct{}{}, nil
}
func (c *counter) Now() int64                    { return 0 }
func (c *counter) Lead(id.NodeID, uint64) []byte { return nil }
func (c *counter) HeldBytes() uint64             { return 0 }
func (c *counter) Freeze() Frozen                { return nothing{} }
func (c *counter) Restore([]byte) error          { return nil }

// nothing is a state without anything in it.
type nothing struct{}

func (nothing) Live() iter.Seq[BodyRun]        { return func(func(BodyRun) bool) {} }
func (nothing) AppendSnapshot(b []byte) []byte { return b }

func benchLeader(b *testing.B, open func(dir string) (Storage, error)) *Group[uint64, struct{}] {
	b.Helper()
	var nodes []id.NodeID
	var transports []*raft.InmemTransport
	var groups []*Group[uint64, struct{}]
	for i := range 3 {
		node := id.NodeID(fmt.Sprint("n", i))
		_, tr := raft.NewInmemTransport(raft.ServerAddress(node))
		for _, o := range transports {
			tr.Connect(o.LocalAddr(), o)
			o.Connect(tr.LocalAddr(), tr)
		}
		nodes, transports = append(nodes, node), append(transports, tr)
	}
	for i, node := range nodes {
		dir := b.TempDir()
		s, err := open(filepath.Join(dir, "raft.db"))
		if err != nil {
			b.Fatal(err)
		}
		snaps, err := OpenSnapshots(filepath.Join(dir, "snapshots"), s)
		if err != nil {
			b.Fatal(err)
		}
		g, err := Open(Config[uint64, struct{}]{
			Group: testGroup, Node: node, Machine: &counter{}, Storage: s, Snapshots: snaps, Transport: transports[i],
			HeartbeatTimeout: time.Second, ElectionTimeout: time.Second,
		})
		if err != nil {
			b.Fatal(err)
		}
		groups = append(groups, g)
		b.Cleanup(func() { _ = g.Close() })
	}
	for _, g := range groups {
		if err := g.Bootstrap(nodes); err != nil {
			b.Fatal(err)
		}
	}
	var leader *Group[uint64, struct{}]
	until(b, "a leader", func() bool {
		for _, g := range groups {
			if g.Leading() {
				leader = g
			}
		}
		return leader != nil
	})
	return leader
}

// synced is a group's part of a shared log that waits for the disk in StoreLogs, so that
// raft's loop stands still meanwhile and a commit takes two syncs one after the other.
type synced struct{ Storage }

// IsMonotonic implements raft.MonotonicLogStore.
func (synced) IsMonotonic() bool { return true }

func (s synced) StoreLogs(logs []*raft.Log) error {
	if err := s.Storage.StoreLogs(logs); err != nil {
		return err
	}
	return s.Sync()
}

// BenchmarkGroup keeps a number of commands of so many messages of 100 bytes in flight
// on a group of three members in one process, each with its own log on the same disk.
func BenchmarkGroup(b *testing.B) {
	stores := []struct {
		name string
		open func(string) (Storage, error)
	}{
		{"memory", func(string) (Storage, error) { return newMemory(), nil }},
		{"bolt", OpenBolt},
		{"shared", openLog},
		{"synced", func(path string) (Storage, error) {
			s, err := openLog(path)
			return synced{s}, err
		}},
	}
	for _, store := range stores {
		for _, load := range []struct{ messages, window int }{{64, 64}, {1, 1024}, {1, 1}} {
			b.Run(fmt.Sprintf("%s/messages=%d/window=%d", store.name, load.messages, load.window), func(b *testing.B) {
				g := benchLeader(b, store.open)
				c := Command{Header: bytes.Repeat([]byte("h"), 16*load.messages)}
				for range load.messages {
					c.Bodies = append(c.Bodies, bytes.Repeat([]byte("b"), 100))
				}
				runLoad(b, g, c, load.window)
			})
		}
	}
}

func runLoad(b *testing.B, g *Group[uint64, struct{}], c Command, window int) {
	b.Helper()
	latencies := make([]time.Duration, b.N)
	free := make(chan struct{}, window)
	before := g.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range b.N {
		free <- struct{}{}
		wg.Add(1)
		begin := time.Now()
		g.Submit(c, func(_ uint64, err error) {
			if err != nil && !errors.Is(err, ErrBusy) {
				b.Error(err)
			}
			latencies[i] = time.Since(begin)
			<-free
			wg.Done()
		})
	}
	wg.Wait()
	b.StopTimer()
	after := g.Stats()
	slices.Sort(latencies)
	seconds := b.Elapsed().Seconds()
	entries := float64(after.Entries - before.Entries)
	b.ReportMetric(entries/seconds, "entries/s")
	b.ReportMetric(float64(b.N*max(1, len(c.Bodies)))/seconds, "messages/s")
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds()), "p99-µs")
}

func benchCommands(n int) []Command {
	commands := make([]Command, n)
	for i := range commands {
		commands[i] = Command{Header: bytes.Repeat([]byte("h"), 16), Bodies: [][]byte{bytes.Repeat([]byte("b"), 100)}}
	}
	return commands
}

func BenchmarkEncodeEntry(b *testing.B) {
	commands := benchCommands(64)
	buf := appendEntry(nil, testGroup, entryHead{}, commands)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = appendEntry(buf[:0], testGroup, entryHead{}, commands)
	}
}

func BenchmarkDecodeEntry(b *testing.B) {
	data := appendEntry(nil, testGroup, entryHead{}, benchCommands(64))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeEntry(testGroup, data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBody reads bodies one after another, from the cache and from the log.
func BenchmarkBody(b *testing.B) {
	for _, cacheBytes := range []int64{64 << 20, 1} {
		b.Run(fmt.Sprintf("cache=%d", cacheBytes), func(b *testing.B) {
			s, err := openLog(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			data := appendEntry(nil, testGroup, entryHead{term: 1}, benchCommands(64))
			if err := s.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Data: data}}); err != nil {
				b.Fatal(err)
			}
			g := &Group[uint64, struct{}]{c: Config[uint64, struct{}]{Group: testGroup, Storage: s}}
			g.bodies.cache = NewBodyCache(cacheBytes)
			b.ReportAllocs()
			i := uint32(0)
			for b.Loop() {
				if _, err := g.Body(BodyRef{Index: 1, Slot: i % 64}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkLiveSet is what bodies that come one by one cost: nanoseconds and bytes for each.
func BenchmarkLiveSet(b *testing.B) {
	const bodies = 1 << 20
	var set liveSet
	for b.Loop() {
		live := liveBuilder{set: set[:0]}
		for i := range uint64(bodies) {
			if err := live.add(BodyRun{Index: 1 + i/64, Entries: 1, Slot: uint32(i % 64), Slots: 1}); err != nil {
				b.Fatal(err)
			}
		}
		live.finish()
		set = live.set
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/bodies, "ns/body")
	b.ReportMetric(float64(len(set))/bodies, "bytes/body")
}
