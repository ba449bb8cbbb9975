package wal

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/wal/vfs"
)

// Records are written into a part of the file that is there already, so that most syncs
// have no new size to make durable; a recycled file is not written ahead at all.
func TestFilesGrowAhead(t *testing.T) {
	const segment, footer, size = 64 << 10, 4 << 10, 200
	d := vfs.NewMem()
	c := testConfig()
	c.SegmentBytes = segment
	l := open(t, d, c)
	g := groupOf(t, l, 7)
	next := uint64(1)
	fill := func(count int) (growths int) {
		t.Helper()
		for range count {
			before := d.Used()
			stored(t, g, entries(next, 1, 1, size))
			next++
			rollerIdle(l)
			if d.Used() != before {
				growths++
			}
			if s := l.Stats(); uint64(s.DiskBytes) != d.Used()-inventoryBytes(t, d) || s.DiskBytes > (segment+footer)*int64(s.Segments+s.Spares) {
				t.Fatalf("%d bytes on disk, %+v", d.Used(), s)
			}
		}
		return growths
	}
	const doublings = 10 // from a segment's header to its end
	if n := fill(200); n < 2 || n > doublings+1 {
		t.Fatalf("the file grew at %d of 200 appends", n)
	}
	fill(200) // into a second segment
	ok(t, drop(g, next-1, nil))
	ok(t, g.Sync())
	rollerIdle(l)
	ok(t, l.tidy())
	if s := l.Stats(); s.Spares != 1 {
		t.Fatalf("nothing was recycled: %+v", s)
	}
	for l.Stats().Spares > 0 {
		fill(1)
	}
	if n := fill(100); n > 0 {
		t.Fatalf("a file that is written over grew at %d of 100 appends", n)
	}
}

// inventoryBytes returns the size of the inventory, which is no segment.
func inventoryBytes(t *testing.T, d vfs.Dir) uint64 {
	t.Helper()
	f, err := d.Open(inventoryName)
	ok(t, err)
	size, err := f.Size()
	ok(t, errors.Join(err, f.Close()))
	return uint64(size)
}
