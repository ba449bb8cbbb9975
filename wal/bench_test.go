package wal_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

const messageBytes = 100

// appender is a way of storing that a benchmark compares. What open returns appends an
// entry to a group and calls done once that is durable, at once or later.
type appender struct {
	name  string
	depth int // batches of a group that are under way at a time
	open  func(b *testing.B, groups int) (append func(group int, e *raft.Log, done func(error)), stop func())
}

func appenders() []appender {
	ofLog := func(async bool) func(b *testing.B, groups int) (func(int, *raft.Log, func(error)), func()) {
		return func(b *testing.B, groups int) (func(int, *raft.Log, func(error)), func()) {
			l := openLog(b, b.TempDir(), wal.Config{})
			all := make([]*wal.GroupLog, groups)
			for i := range all {
				g, err := l.Group(id.GroupID(i + 1))
				if err != nil {
					b.Fatal(err)
				}
				all[i] = g
			}
			waits := make([]waits, groups)
			for i, g := range all {
				g.Notify(waits[i].durable)
			}
			return func(i int, e *raft.Log, done func(error)) {
				err := all[i].StoreLog(e)
				switch {
				case err != nil:
					done(err)
				case !async:
					done(all[i].Sync())
				default:
					waits[i].add(all[i], done)
				}
			}, func() { _ = l.Close() }
		}
	}
	return []appender{
		{"sync", 1, ofLog(false)},
		{"async", 8, ofLog(true)},
		{"bolt", 1, func(b *testing.B, groups int) (func(int, *raft.Log, func(error)), func()) {
			dir := b.TempDir()
			all := make([]raftfsm.Storage, groups)
			for i := range all {
				s, err := raftfsm.OpenBolt(filepath.Join(dir, fmt.Sprintf("%d.db", i)))
				if err != nil {
					b.Fatal(err)
				}
				all[i] = s
			}
			return func(i int, e *raft.Log, done func(error)) { done(all[i].StoreLog(e)) }, func() {
				for _, s := range all {
					_ = s.Close()
				}
			}
		}},
	}
}

// waits are the appends of one group that are not durable, oldest first.
type waits struct {
	mu   sync.Mutex
	list []wait
}

type wait struct {
	at   wal.Position
	done func(error)
}

func (w *waits) add(g *wal.GroupLog, done func(error)) {
	w.mu.Lock()
	w.list = append(w.list, wait{g.Appended(), done})
	w.mu.Unlock()
	w.durable(g.Durable(), nil)
}

func (w *waits) durable(p wal.Position, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.list) > 0 && (err != nil || w.list[0].at <= p) {
		w.list[0].done(err)
		w.list = w.list[1:]
	}
}

func openLog(b *testing.B, path string, c wal.Config) *wal.Log {
	b.Helper()
	d, err := vfs.OS(path)
	if err != nil {
		b.Fatal(err)
	}
	l, err := wal.Open(d, c)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// result is what one appender reached.
type result struct {
	perSecond float64 // messages
	p50, p99  time.Duration
	allocs    float64 // for an entry
}

// drive appends for a while from one goroutine per group and measures.
func drive(b *testing.B, a appender, groups, batch int, during time.Duration) result {
	b.Helper()
	appendTo, stop := a.open(b, groups)
	defer stop()
	data := make([]byte, batch*messageBytes)
	var mu sync.Mutex
	var took []time.Duration
	var work sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	for g := range groups {
		work.Go(func() {
			free := make(chan struct{}, a.depth)
			for range a.depth {
				free <- struct{}{}
			}
			var own []time.Duration
			var lock sync.Mutex
			for i := uint64(1); ; i++ {
				<-free
				since := time.Now()
				if since.Sub(begin) > during {
					free <- struct{}{}
					break
				}
				appendTo(g, &raft.Log{Index: i, Term: 1, Data: data}, func(err error) {
					if err != nil {
						b.Error(err)
					}
					lock.Lock()
					own = append(own, time.Since(since))
					lock.Unlock()
					free <- struct{}{}
				})
			}
			for range a.depth {
				<-free
			}
			mu.Lock()
			took = append(took, own...)
			mu.Unlock()
		})
	}
	work.Wait()
	all := time.Since(begin)
	runtime.ReadMemStats(&after)
	slices.Sort(took)
	n := len(took)
	return result{
		perSecond: float64(n*batch) / all.Seconds(), p50: took[n/2], p99: took[n*99/100],
		allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
	}
}

// BenchmarkAppend compares the log with one bolt file for each group, on the disk of the
// temporary directory, every append durable. Run it with -benchtime 1x: it takes turns and
// reports medians.
func BenchmarkAppend(b *testing.B) {
	const rounds, during = 3, 300 * time.Millisecond
	for _, groups := range []int{1, 100, 1000} {
		for _, batch := range []int{1, 64} {
			b.Run(fmt.Sprintf("groups=%d/batch=%d", groups, batch), func(b *testing.B) {
				all := appenders()
				results := make([][]result, len(all))
				for range rounds {
					for i, a := range all {
						results[i] = append(results[i], drive(b, a, groups, batch, during))
					}
				}
				rate := make([]float64, len(all))
				for i, a := range all {
					rs := results[i]
					slices.SortFunc(rs, func(x, y result) int { return int(x.perSecond - y.perSecond) })
					m := rs[len(rs)/2]
					rate[i] = m.perSecond
					b.ReportMetric(m.perSecond, a.name+"-msg/s")
					b.ReportMetric(float64(m.p50.Microseconds()), a.name+"-p50-µs")
					b.ReportMetric(float64(m.p99.Microseconds()), a.name+"-p99-µs")
					b.ReportMetric(m.allocs, a.name+"-allocs/entry")
				}
				b.ReportMetric(rate[0]/rate[2], "sync÷bolt")
				b.ReportMetric(rate[1]/rate[2], "async÷bolt")
			})
		}
	}
}

// BenchmarkStoreLogs is the processor's share of an append, without a disk.
func BenchmarkStoreLogs(b *testing.B) {
	for _, size := range []int{100, 6400} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l, err := wal.Open(nowhere{vfs.NewMem()}, wal.Config{SegmentBytes: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			g, err := l.Group(1)
			if err != nil {
				b.Fatal(err)
			}
			e := raft.Log{Term: 1, Data: make([]byte, size)}
			batch := []*raft.Log{&e}
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				e.Index++
				if err := g.StoreLogs(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// nowhere forgets what is written.
type nowhere struct{ vfs.Dir }

type nowhereFile struct{ vfs.File }

func (d nowhere) Create(name string) (vfs.File, error) {
	f, err := d.Dir.Create(name)
	return nowhereFile{f}, err
}

func (nowhereFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

func (nowhereFile) WritePartsAt([][]byte, int64) error { return nil }

// BenchmarkIdleGroup reports what a group costs that has a configuration and a no-op in its
// log and a vote, after its entries have left memory.
func BenchmarkIdleGroup(b *testing.B) {
	const groups = 10000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	l := openLog(b, b.TempDir(), wal.Config{TailBytes: 1 << 10})
	defer func() { _ = l.Close() }()
	before := heap()
	all := fill(b, l, groups, 2, 200)
	var work sync.WaitGroup
	for _, g := range all {
		work.Go(func() {
			if err := g.SetUint64([]byte("CurrentTerm"), 1); err != nil {
				b.Error(err)
			}
		})
	}
	work.Wait()
	for b.Loop() {
		runtime.KeepAlive(all)
	}
	b.ReportMetric(float64(heap()-before)/groups, "bytes/group")
}

// BenchmarkGetLog reads from memory and from the disk's cache.
func BenchmarkGetLog(b *testing.B) {
	for name, tail := range map[string]int64{"memory": 0, "disk": -1} {
		b.Run(name, func(b *testing.B) {
			l := openLog(b, b.TempDir(), wal.Config{TailBytes: tail})
			defer func() { _ = l.Close() }()
			g := fill(b, l, 1, 1000, 6400)
			var e raft.Log
			b.ReportAllocs()
			b.SetBytes(6400)
			for i := uint64(0); b.Loop(); i++ {
				if err := g[0].GetLog(1+i%1000, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// fill appends entries to groups and returns them.
func fill(b *testing.B, l *wal.Log, groups, entries, size int) []*wal.GroupLog {
	b.Helper()
	all := make([]*wal.GroupLog, groups)
	for i := range all {
		g, err := l.Group(id.GroupID(i + 1))
		if err != nil {
			b.Fatal(err)
		}
		all[i] = g
	}
	data := make([]byte, size)
	for i := range entries {
		for _, g := range all {
			if err := g.StoreLog(&raft.Log{Index: uint64(i + 1), Term: 1, Data: data}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := all[groups-1].Sync(); err != nil {
		b.Fatal(err)
	}
	return all
}

// BenchmarkOpen is a restart with 1,000 groups: from footers, and by scanning a segment
// that was not closed.
func BenchmarkOpen(b *testing.B) {
	for _, size := range []int{100, 6400} {
		b.Run(fmt.Sprintf("sealed/bytes=%d", size), func(b *testing.B) {
			path := b.TempDir()
			l := openLog(b, path, wal.Config{})
			entries := 256 << 20 / 1000 / (size + wal.HeadBytes)
			fill(b, l, 1000, entries, size)
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(1000 * entries * (size + wal.HeadBytes)))
			b.ReportMetric(float64(1000*entries), "entries")
			for b.Loop() {
				l := openLog(b, path, wal.Config{})
				b.StopTimer()
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
		b.Run(fmt.Sprintf("scan/bytes=%d", size), func(b *testing.B) {
			entries := 60 << 20 / 1000 / (size + wal.HeadBytes)
			b.SetBytes(int64(1000 * entries * (size + wal.HeadBytes)))
			for b.Loop() {
				b.StopTimer()
				m := vfs.NewMem()
				l, err := wal.Open(m, wal.Config{SpaceInterval: -1})
				if err != nil {
					b.Fatal(err)
				}
				fill(b, l, 1000, entries, size)
				m = m.Crash(vfs.LoseAll, nil)
				_ = l.Close()
				b.StartTimer()
				if l, err = wal.Open(m, wal.Config{SpaceInterval: -1}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				_ = l.Close()
				b.StartTimer()
			}
		})
	}
}
