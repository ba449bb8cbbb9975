package quorumq

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// deepMessages is how many messages a deep queue of the benchmarks holds.
const deepMessages = 10_000_000

// deepQueue fills a queue with entries of batch messages each, at 100,000 messages a second: the
// time between two entries follows from batch.
func deepQueue(batch int, change func(i int, m *NewMessage)) *Queue {
	q := New(1024, DefaultConfig())
	ms := make([]NewMessage, batch)
	for i := range ms {
		ms[i] = NewMessage{Size: 100, TTLMs: Unlimited, Priority: DefaultPriority}
	}
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: ms}
	for i := 0; i < deepMessages; i += batch {
		for j := range ms {
			if change != nil {
				change(i+j, &ms[j])
			}
		}
		q.Apply(Meta{Index: uint64(i/batch + 1), Now: Time(1_700_000_000_000 + i/100)}, e)
		e.First += Seq(batch)
	}
	return q
}

// BenchmarkDeepSnapshot freezes, encodes and restores a queue of ten million messages. blocked_ms
// is how long the queue can apply nothing, whole_ms is the time from Freeze until state and bodies
// are there, and contents_ms the time until a backup can read the messages. Each is the best of the
// runs, because the machine has other work too.
func BenchmarkDeepSnapshot(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, bc := range []struct {
		name   string
		batch  int
		change func(i int, m *NewMessage)
	}{
		{"batch256", 256, nil},
		{"batch1", 1, nil},
		{"sizes", 64, func(_ int, m *NewMessage) { m.Size = 100 + random.Uint32N(1000) }},
		{"priorities", 64, func(i int, m *NewMessage) { m.Priority = uint8(i % 4) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			before := heapBytes()
			q := deepQueue(bc.batch, bc.change)
			b.ReportMetric(float64(heapBytes()-before)/deepMessages, "bytes/message")
			var state []byte
			blocked, whole, restore, contents := time.Hour, time.Hour, time.Hour, time.Hour
			runs := 0
			for range b.N {
				runs = 0
				begin := time.Now()
				f := q.Freeze()
				blocked = min(blocked, time.Since(begin))
				state = f.AppendSnapshot(make([]byte, 0, len(state)+len(state)/8))
				for range f.Live() {
					runs++
				}
				whole = min(whole, time.Since(begin))
				runtime.GC()
				begin = time.Now()
				if _, err := Restore(state); err != nil {
					b.Fatal(err)
				}
				restore = min(restore, time.Since(begin))
				begin = time.Now()
				if _, err := f.Contents(); err != nil {
					b.Fatal(err)
				}
				contents = min(contents, time.Since(begin))
			}
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(blocked), "blocked_ms")
			b.ReportMetric(ms(whole), "whole_ms")
			b.ReportMetric(ms(restore), "restore_ms")
			b.ReportMetric(ms(contents), "contents_ms")
			b.ReportMetric(float64(len(state))/1e6, "snapshot_mb")
			b.ReportMetric(float64(runs), "live-runs")
			runtime.KeepAlive(q)
		})
	}
}
