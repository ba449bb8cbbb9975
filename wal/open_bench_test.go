package wal_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/quorate/quorate/wal"
)

// BenchmarkOpenLarge is a restart with a large log of 1,000 groups that was closed: time,
// bytes of log per second, and memory of the index. QUORATE_BENCH_LOG_GB is the size of
// the log, small unless asked for more.
func BenchmarkOpenLarge(b *testing.B) {
	gigabytes := 0.125
	if text := os.Getenv("QUORATE_BENCH_LOG_GB"); text != "" {
		var err error
		if gigabytes, err = strconv.ParseFloat(text, 64); err != nil || gigabytes <= 0 {
			b.Fatalf("QUORATE_BENCH_LOG_GB is %q: set a number of gigabytes", text)
		}
	}
	const groups = 1000
	for _, size := range []int{1000, 6400} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			path := b.TempDir()
			l := openLog(b, path, wal.Config{})
			entries := max(1, int(gigabytes*1e9)/groups/(size+wal.HeadBytes))
			fill(b, l, groups, entries, size)
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			l = nil
			before := liveHeap()
			b.SetBytes(int64(groups * entries * (size + wal.HeadBytes)))
			for b.Loop() {
				l = openLog(b, path, wal.Config{})
				b.StopTimer()
				b.ReportMetric(float64(liveHeap()-before)/float64(groups*entries), "heapB/entry")
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(groups*entries), "entries")
		})
	}
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
