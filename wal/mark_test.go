package wal

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quorate/quorate/wal/vfs"
)

// A log that ends before a mark of it is short; a torn end behind the mark is none.
func TestMark(t *testing.T) {
	const entries = 40
	// Three segments and their marks: of the end, and of half of it.
	write := func(t *testing.T) (d *vfs.Mem, half, end Mark) {
		t.Helper()
		d = vfs.NewMem()
		l, err := Open(d, testConfig())
		ok(t, err)
		if m := l.Mark(); m != (Mark{}) {
			t.Fatalf("an empty log has the mark %+v", m)
		}
		g := groupOf(t, l, 7)
		for i := uint64(1); i <= entries; i++ {
			ok(t, durably(store(i, 1, 1, 300), l, g))
			if i == entries/2 {
				half = l.Mark()
			}
		}
		end = l.Mark()
		if end.Segment <= half.Segment || end.Segment < 3 {
			t.Fatalf("marks %+v and %+v are in too few segments", half, end)
		}
		rollerIdle(l)
		return d.Crash(vfs.LoseAll, nil), half, end
	}
	reopen := func(t *testing.T, d *vfs.Mem, m Mark) (*Log, error) {
		t.Helper()
		c := testConfig()
		c.Mark = m
		l, err := Open(d, c)
		if err == nil {
			t.Cleanup(func() { ok(t, l.Close()) })
		}
		return l, err
	}
	for name, c := range map[string]struct {
		harm  func(t *testing.T, d *vfs.Mem, half, end Mark)
		short bool // of the mark of the end
	}{
		"whole": {func(*testing.T, *vfs.Mem, Mark, Mark) {}, false},
		"removed": {func(t *testing.T, d *vfs.Mem, _, _ Mark) {
			names, err := d.List()
			ok(t, err)
			for _, n := range names {
				if _, is := parseName(n); is {
					ok(t, d.Remove(n))
				}
			}
		}, true},
		"last segments removed": {func(t *testing.T, d *vfs.Mem, half, end Mark) {
			for s := half.Segment + 1; s <= end.Segment; s++ {
				ok(t, d.Remove(segmentName(s)))
			}
		}, true},
		"tail zeroed": {func(t *testing.T, d *vfs.Mem, _, end Mark) {
			f, err := d.Open(segmentName(end.Segment))
			ok(t, err)
			_, err = f.WriteAt(make([]byte, 200), int64(end.Offset)-200)
			ok(t, err)
			ok(t, f.Sync())
		}, true},
		"cut": {func(t *testing.T, d *vfs.Mem, _, end Mark) {
			f, err := d.Open(segmentName(end.Segment))
			ok(t, err)
			ok(t, f.Truncate(int64(end.Offset)-1))
			ok(t, f.Sync())
		}, true},
		"torn behind the mark": {func(t *testing.T, d *vfs.Mem, _, end Mark) {
			f, err := d.Open(segmentName(end.Segment))
			ok(t, err)
			_, err = f.WriteAt([]byte("half a record"+strings.Repeat("x", 100)), int64(end.Offset))
			ok(t, err)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, half, end := write(t)
			c.harm(t, d, half, end)
			l, err := reopen(t, d, end)
			ok(t, err)
			if got := l.Gap() != nil; got != c.short {
				t.Errorf("gap: %v, want %v", l.Gap(), c.short)
			}
			if lost := l.LostGroup(7) != nil; l.Has(7) && lost != c.short {
				t.Errorf("group 7: %v, want lost: %v", l.LostGroup(7), c.short)
			}
			if m := l.Mark(); !c.short && (m.Segment != end.Segment || m.Offset < end.Offset) {
				t.Errorf("mark %+v after a start, it was %+v", m, end)
			}
		})
	}
	t.Run("another log", func(t *testing.T) {
		d, _, end := write(t)
		end.Log++
		l, err := reopen(t, d, end)
		ok(t, err)
		if l.Gap() == nil {
			t.Error("not noticed")
		}
	})
}

// A segment that was made ahead before a crash has no records, and is freed after the next start. A mark does not name it, or
// the start after that would miss it.
func TestMarkNamesRecords(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g := groupOf(t, l, 7)
	for i := uint64(1); i == 1 || l.Stats().DiskBytes == l.segs[0].bytes(); i++ {
		ok(t, durably(store(i, 1, 1, 300), l, g))
		rollerIdle(l)
	}
	crashed := d.Crash(vfs.LoseAll, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	l = open(t, crashed, testConfig())
	before := l.Stats().Segments
	ok(t, l.tidy())
	if after := l.Stats().Segments; before != 2 || after != 1 {
		t.Fatalf("there were %d segments, and are %d", before, after)
	}
	c := testConfig()
	c.Mark = l.Mark()
	ok(t, l.Close())
	if l = open(t, crashed, c); l.Gap() != nil || l.LostGroup(7) != nil || c.Mark == (Mark{}) {
		t.Errorf("mark %+v: the gap is %v, group 7: %v", c.Mark, l.Gap(), l.LostGroup(7))
	}
}
