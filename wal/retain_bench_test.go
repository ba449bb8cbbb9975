package wal

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// BenchmarkRetain forgets one entry more of a group that keeps a million of them, while
// another group appends. whole_ms is a call of Retain, blocked_ms how long the other one
// waited at worst: the best of the runs each, since the machine has other work too.
func BenchmarkRetain(b *testing.B) {
	const count = 1 << 20
	for _, bc := range []struct {
		name   string
		stride uint64 // of what is kept
	}{{"all", 1}, {"every-second", 2}} {
		b.Run(bc.name, func(b *testing.B) {
			dir, err := vfs.OS(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			l, err := Open(dir, Config{})
			if err != nil {
				b.Fatal(err)
			}
			g, other := benchGroup(b, l, 1), benchGroup(b, l, 2)
			for i := uint64(1); i <= count; i += 64 {
				if err := g.StoreLogs(entries(i, 1, 64, 8)); err != nil {
					b.Fatal(err)
				}
			}
			if err := g.DeleteRange(1, count-10); err != nil {
				b.Fatal(err)
			}
			whole, blocked := time.Hour, time.Hour
			next := uint64(1)
			for i := range uint64(b.N) {
				gone := 2 + i*bc.stride
				live := func(yield func(first, last uint64) bool) {
					if bc.stride == 1 {
						yield(gone, count)
						return
					}
					for i := gone; i <= count && yield(i, i); i += bc.stride {
						continue
					}
				}
				done := make(chan error, 1)
				begin := time.Now()
				go func() { done <- g.Retain(^uint64(0), live) }()
				worst, err := appendUntil(other, &next, done)
				if err != nil {
					b.Fatal(err)
				}
				whole, blocked = min(whole, time.Since(begin)), min(blocked, worst)
			}
			b.ReportMetric(float64(whole.Microseconds())/1000, "whole_ms")
			b.ReportMetric(float64(blocked.Microseconds())/1000, "blocked_ms")
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchGroup(b *testing.B, l *Log, group uint64) *GroupLog {
	b.Helper()
	g, err := l.Group(id.GroupID(group))
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// appendUntil appends entries one by one until done has something, and returns how long
// the slowest took.
func appendUntil(g *GroupLog, next *uint64, done <-chan error) (worst time.Duration, err error) {
	for {
		select {
		case err := <-done:
			return worst, err
		default:
		}
		begin := time.Now()
		if err := g.StoreLog(&raft.Log{Index: *next, Term: 1, Data: make([]byte, 100)}); err != nil {
			return worst, err
		}
		*next++
		worst = max(worst, time.Since(begin))
		time.Sleep(50 * time.Microsecond)
	}
}
