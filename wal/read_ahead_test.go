package wal

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal/vfs"
)

// aheadOf returns the indexes of the entries that Ahead reads, and how many reads that took.
func aheadOf(t *testing.T, d *vfs.Mem, g *GroupLog, size int, after, last uint64) (indexes []uint64, reads int) {
	t.Helper()
	before := d.Count(vfs.OpRead)
	for _, e := range g.Ahead(after, last) {
		if string(e.Data) != content(e.Index, 1, size) || e.Term != 1 || e.Type != raft.LogCommand {
			t.Errorf("entry %d of term %d is %q", e.Index, e.Term, e.Data)
		}
		indexes = append(indexes, e.Index)
	}
	return indexes, d.Count(vfs.OpRead) - before
}

// upTo returns the numbers from one to another.
func upTo(from, to uint64) (all []uint64) {
	for ; from <= to; from++ {
		all = append(all, from)
	}
	return all
}

// One read brings the entries that lie close together, and no others.
func TestAhead(t *testing.T) {
	d, c := vfs.NewMem(), testConfig()
	c.SegmentBytes, c.TailBytes = 1<<20, -1
	l := open(t, d, c)
	g, other := groupOf(t, l, 1), groupOf(t, l, 2)
	stored(t, g, entries(1, 1, 10, 100))
	stored(t, other, entries(1, 1, 1, readAheadGap/2)) // little is read along
	stored(t, g, entries(11, 1, 10, 100))
	stored(t, other, entries(2, 1, 1, 2*readAheadGap)) // this is not
	stored(t, g, entries(21, 1, 10, 100))
	ok(t, g.StoreRetained(entries(25, 1, 1, 100)))
	for _, c := range []struct {
		name        string
		after, last uint64
		want        []uint64
	}{
		{"up to the last", 1, 5, upTo(2, 5)},
		{"over another group's", 3, 100, upTo(4, 20)},
		{"from anywhere", 20, 24, upTo(21, 24)},
		{"up to what a snapshot has brought", 20, 100, upTo(21, 24)},
		{"behind the end", 30, 100, nil},
		{"none", 5, 5, nil},
	} {
		got, reads := aheadOf(t, d, g, 100, c.after, c.last)
		if want := min(1, len(c.want)); !slices.Equal(got, c.want) || reads != want {
			t.Errorf("%s: entries %d with %d reads, want %d", c.name, got, reads, c.want)
		}
	}
	built := groupOf(t, l, 3)
	ok(t, built.StoreRetained(entries(1, 1, 10, 100)))
	stored(t, built, entries(11, 1, 10, 100))
	if got, reads := aheadOf(t, d, built, 100, 5, 20); got != nil || reads != 0 {
		t.Errorf("entries %d are read over those that a snapshot has brought", got)
	}
	ok(t, g.DeleteRange(1, 10))
	ok(t, g.Retain(10, singles(slices.Values([]uint64{2, 4, 9}))))
	if got, _ := aheadOf(t, d, g, 100, 2, 10); !slices.Equal(got, []uint64{4, 9}) {
		t.Errorf("of the entries 4 and 9 that are retained, %d are read", got)
	}
	if got, _ := aheadOf(t, d, other, 2*readAheadGap, 1, 2); !slices.Equal(got, []uint64{2}) {
		t.Errorf("of the other group entries %d are read", got)
	}
}

// A read is bounded, and an entry that is larger is not for it.
func TestAheadIsBounded(t *testing.T) {
	d, c := vfs.NewMem(), testConfig()
	c.SegmentBytes, c.TailBytes = 8<<20, -1
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	stored(t, g, entries(1, 1, 20, readAheadBytes/8))
	if got, _ := aheadOf(t, d, g, readAheadBytes/8, 1, 20); !slices.Equal(got, upTo(2, 8)) {
		t.Errorf("entries %d are read", got)
	}
	large := groupOf(t, l, 2)
	stored(t, large, entries(1, 1, 2, readAheadBytes))
	if got, reads := aheadOf(t, d, large, readAheadBytes, 1, 2); got != nil || reads != 0 {
		t.Errorf("entries %d are read, with %d reads", got, reads)
	}
}

// What is in memory, or not on the disk yet, is not read ahead; after that it is.
func TestAheadOfTheEnd(t *testing.T) {
	d, c := vfs.NewMem(), testConfig()
	c.SegmentBytes, c.TailBytes = 1<<20, 1<<20
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	stored(t, g, entries(1, 1, 10, 100))
	if got, reads := aheadOf(t, d, g, 100, 1, 10); got != nil || reads != 0 {
		t.Errorf("entries %d in memory are read, with %d reads", got, reads)
	}
	l.AgeTail()
	stored(t, g, entries(11, 1, 10, 100))
	l.AgeTail()
	if got, _ := aheadOf(t, d, g, 100, 1, 20); !slices.Equal(got, upTo(2, 10)) {
		t.Errorf("entries %d are read, want 2 to 10", got)
	}
	hung, release := d.HangAt(vfs.OpSync, 1)
	ok(t, g.StoreLogs(entries(21, 1, 10, 100)))
	<-hung
	l.AgeTail()
	l.AgeTail()
	l.mu.Lock() // the disk hangs: what would be read
	places := g.together(11, 30)
	l.mu.Unlock()
	if n := len(places); n != 10 || places[0].index != 11 || places[n-1].index != 20 {
		t.Errorf("entries at %v are read, want 11 to 20", places)
	}
	release()
	ok(t, g.Sync())
	if got, _ := aheadOf(t, d, g, 100, 10, 30); !slices.Equal(got, upTo(11, 30)) {
		t.Errorf("entries %d are read, want 11 to 30", got)
	}
}

// A damaged entry ends what is read ahead. Only who needs the entry loses the group.
func TestAheadOfDamage(t *testing.T) {
	d, c := vfs.NewMem(), testConfig()
	c.SegmentBytes, c.TailBytes = 1<<20, -1
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	stored(t, g, entries(1, 1, 10, 100))
	at := g.ix.get(6)
	d.Flip(segmentName(at.seg), int64(at.off)+HeadBytes+2)
	if got, _ := aheadOf(t, d, g, 100, 1, 10); !slices.Equal(got, upTo(2, 5)) {
		t.Errorf("entries %d are read, want 2 to 5", got)
	}
	var e raft.Log
	ok(t, g.GetLog(5, &e))
	if g.GetLog(6, &e) == nil || l.LostGroup(1) == nil {
		t.Error("the damaged entry can be read")
	}
	other := groupOf(t, l, 2)
	stored(t, other, entries(1, 1, 20, 100))
	d.FailAt(vfs.OpRead, 1, errors.New("bad sector"))
	if got, _ := aheadOf(t, d, other, 100, 0, 20); !slices.Equal(got, upTo(1, 10)) {
		t.Errorf("entries %d are read in front of a bad sector, want 1 to 10", got)
	}
	if got := g.Ahead(1, 10); got != nil {
		t.Errorf("%d entries of a lost group are read", len(got))
	}
}
