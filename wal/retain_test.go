package wal

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal/vfs"
)

// Retain works in windows: what is kept fills many records, and a part of them may be
// carried on the way.
func TestRetainInWindows(t *testing.T) {
	const count = 3 * chunkEntries * keepChunks
	d := vfs.NewMem()
	c := testConfig()
	c.SegmentBytes = 1 << 20
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	ok(t, g.StoreLogs(entries(1, 1, count, 8)))
	ok(t, g.DeleteRange(1, count-10))
	live := func(step uint64) iter.Seq[uint64] {
		return func(yield func(uint64) bool) {
			for i := uint64(3); i <= count && yield(i); i += step {
				continue
			}
		}
	}
	holds := func(step uint64) {
		t.Helper()
		for i := uint64(1); i <= count; i += 7 {
			var e raft.Log
			err := g.Entry(i, &e)
			if want := i >= 3 && (i-3)%step == 0 || i > count-10; want != (err == nil) {
				t.Fatalf("step %d: entry %d: %v", step, i, err)
			}
		}
	}
	for _, step := range []uint64{5, 10, 10, 1000} {
		ok(t, g.Retain(^uint64(0), singles(live(step))))
		holds(step)
		if step == 5 {
			if n := len(g.keeps); n < 3 {
				t.Errorf("%d records", n)
			}
			for _, k := range g.keeps {
				if n := len(g.ix.spans(k.span)); n > keepSpans+chunkEntries*keepChunks {
					t.Errorf("a record names %d spans", n)
				}
			}
		}
		rollerIdle(l)
		ok(t, l.tidy())
		holds(step)
		account(t, l)
		ok(t, l.Close())
		l = open(t, d, c)
		g = groupOf(t, l, 1)
		holds(step)
	}
}

// BenchmarkDiskUse publishes 10 million messages in entries of 64 × 100 B and lets them go
// behind a snapshot for each 16 MiB, except for a message in each 10,000, which stays.
func BenchmarkDiskUse(b *testing.B) {
	for b.Loop() {
		dir, err := vfs.OS(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		l, err := Open(dir, Config{})
		if err != nil {
			b.Fatal(err)
		}
		g, err := l.Group(1)
		if err != nil {
			b.Fatal(err)
		}
		const messages, perEntry, perSnapshot = 10_000_000, 64, 2600
		var live []uint64
		worst := 0.0
		data := make([]byte, 6400)
		for i := uint64(1); i <= messages/perEntry; i++ {
			if err := g.StoreLog(&raft.Log{Index: i, Term: 1, Data: data}); err != nil {
				b.Fatal(err)
			}
			if i%(10_000/perEntry) == 0 {
				live = append(live, i)
			}
			if i%perSnapshot == 0 {
				if err := drop(g, i-256, live); err != nil {
					b.Fatal(err)
				}
				s := l.Stats()
				worst = max(worst, float64(s.DiskBytes-3*s.LiveBytes)/DefaultSegmentBytes)
			}
		}
		if err := drop(g, messages/perEntry, live); err != nil {
			b.Fatal(err)
		}
		if err := l.tidy(); err != nil {
			b.Fatal(err)
		}
		s := l.Stats()
		b.ReportMetric(float64(s.DiskBytes)/1e6, "disk-MB")
		b.ReportMetric(float64(s.LiveBytes)/1e6, "live-MB")
		b.ReportMetric(worst, "segments-beyond-3×live-at-worst")
		b.ReportMetric(float64(s.Carried)/float64(s.Appended), "carried/appended")
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// drop deletes a prefix and what is not live below it, durably, as a snapshot does.
func drop(g *GroupLog, upTo uint64, live []uint64) error {
	if err := g.DeleteRange(1, upTo); err != nil {
		return err
	}
	if err := g.Retain(^uint64(0), singles(slices.Values(live))); err != nil {
		return fmt.Errorf("retain: %w", err)
	}
	return g.Sync()
}

// singles yields indexes as ranges of one.
func singles(indexes iter.Seq[uint64]) iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		for i := range indexes {
			if !yield(i, i) {
				return
			}
		}
	}
}
