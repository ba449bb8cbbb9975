package wal

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal/vfs"
)

// Recent entries stay in memory for one call of AgeTail and leave with the next, and with the last of them the buffers
// of batches.
func TestAgeTail(t *testing.T) {
	d, c := vfs.NewMem(), testConfig()
	c.SegmentBytes, c.TailBytes = 8<<20, 8<<20
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	const first, more = 2*ageAtOnce + 1, 10
	stored(t, g, entries(1, 1, first, 100))
	l.AgeTail()
	stored(t, g, entries(first+1, 1, more, 100))
	reads := func(from, to uint64) int {
		t.Helper()
		before := d.Count(vfs.OpRead)
		for i := from; i <= to; i++ {
			var e raft.Log
			if ok(t, g.GetLog(i, &e)); string(e.Data) != content(i, 1, 100) {
				t.Errorf("entry %d is %q", i, e.Data)
			}
		}
		return d.Count(vfs.OpRead) - before
	}
	if n := reads(1, first+more); n != 0 {
		t.Errorf("%d reads after one call", n)
	}
	l.AgeTail()
	if n := reads(first+1, first+more); n != 0 {
		t.Errorf("%d reads of what came since the first call", n)
	}
	if n := reads(1, first); n != first {
		t.Errorf("%d reads of %d entries that were there at the first call", n, first)
	}
	if s := l.Stats(); s.TailBytes != more*(100+entryOverheadBytes) || len(l.buffers) == 0 {
		t.Errorf("%d bytes in memory, %d buffers", s.TailBytes, len(l.buffers))
	}
	l.AgeTail()
	if s := l.Stats(); s.TailBytes != 0 || l.tail.queue != nil || g.tail.logs != nil || l.buffers != nil || l.cur.data != nil {
		t.Errorf("%d bytes and a queue of %d are still in memory, with %d buffers", s.TailBytes, len(l.tail.queue), len(l.buffers))
	}
	stored(t, g, entries(first+more+1, 1, more, 100))
	if n := reads(first+more+1, first+2*more); n != 0 {
		t.Errorf("%d reads of new entries", n)
	}
}

// What many entries have needed is not kept for a few that come now and then.
func TestAgeTailOfATrickle(t *testing.T) {
	d, c := vfs.NewMem(), testConfig()
	c.SegmentBytes, c.TailBytes = 8<<20, 8<<20
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	const burst = 4 * ageAtOnce
	stored(t, g, entries(1, 1, burst, 100))
	for i := range uint64(2) {
		l.AgeTail()
		stored(t, g, entries(burst+1+i, 1, 1, 100))
	}
	if n, most := len(l.tail.queue), 8*leastQueue; n > most {
		t.Errorf("the queue of %d entries has room for %d, want at most %d", l.tail.n, n, most)
	}
	if n, most := cap(g.tail.logs), 2*goneFew; n > most {
		t.Errorf("%d entries have room for %d, want at most %d", len(g.tail.logs), n, most)
	}
	for i := range uint64(2) {
		var e raft.Log
		if ok(t, g.GetLog(burst+1+i, &e)); string(e.Data) != content(burst+1+i, 1, 100) {
			t.Errorf("entry %d is %q", burst+1+i, e.Data)
		}
	}
}
