package wal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

// BenchmarkBesideLargeEntries is a small entry's way to the disk, every half millisecond, while
// another group fills a segment every few seconds: 25 entries of a mebibyte a second, of which
// the last 32 are kept. Times are percentiles in milliseconds.
func BenchmarkBesideLargeEntries(b *testing.B) {
	const every, kept = 40 * time.Millisecond, 32
	l := openLog(b, b.TempDir(), wal.Config{})
	small, err := l.Group(1)
	if err != nil {
		b.Fatal(err)
	}
	large, err := l.Group(2)
	if err != nil {
		b.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		clock := time.NewTicker(every)
		defer clock.Stop()
		data := make([]byte, 1<<20)
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-clock.C:
			}
			err := large.StoreLog(&raft.Log{Index: i, Term: 1, Data: data})
			if err == nil && i > kept {
				err = large.DeleteRange(1, i-kept)
			}
			if err == nil && i%kept == 0 {
				err = large.Retain(^uint64(0), func(func(uint64, uint64) bool) {})
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	clock := time.NewTicker(500 * time.Microsecond)
	defer clock.Stop()
	data := make([]byte, 1<<10)
	times := make([]float64, 0, b.N)
	b.ResetTimer()
	for i := range b.N {
		<-clock.C
		begin := time.Now()
		if err := small.StoreLog(&raft.Log{Index: uint64(i + 1), Term: 1, Data: data}); err != nil {
			b.Fatal(err)
		}
		if err := small.Sync(); err != nil {
			b.Fatal(err)
		}
		times = append(times, float64(time.Since(begin).Microseconds())/1000)
	}
	b.StopTimer()
	close(stop)
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	slices.Sort(times)
	for _, p := range []struct {
		name  string
		share float64
	}{{"p50-ms", 0.5}, {"p99-ms", 0.99}, {"p99.9-ms", 0.999}, {"max-ms", 1}} {
		b.ReportMetric(times[min(len(times)-1, int(p.share*float64(len(times))))], p.name)
	}
	s := l.Stats()
	b.ReportMetric(float64(s.Appended)/float64(wal.DefaultSegmentBytes), "segments")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}
