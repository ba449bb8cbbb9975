package wal

import (
	"bytes"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal/vfs"
)

// The data of large entries is not copied. Until it is written, it is read from where it is.
func TestLargeEntriesAreShared(t *testing.T) {
	d, c := vfs.NewMem(), testConfig()
	c.SegmentBytes, c.TailBytes, c.sharedBytes = 8<<20, -1, 0
	l := open(t, d, c)
	g := groupOf(t, l, 7)
	stored(t, g, entries(1, 1, 1, 50))
	hung, release := d.HangAt(vfs.OpSync, 1)
	es := slices.Concat(entries(2, 1, 1, 300_000), entries(3, 1, 3, 50), entries(6, 1, 2, sharedBytes), entries(8, 1, 1, sharedBytes-1))
	ok(t, g.StoreLogs(es))
	<-hung
	more := entries(9, 1, 1, 300_000)
	ok(t, g.StoreLogs(more))
	l.mu.Lock()
	copied := len(l.inflight.data) + len(l.cur.data)
	l.mu.Unlock()
	if copied < sharedBytes || copied > 2*sharedBytes {
		t.Errorf("%d bytes were copied; the one entry that is small enough has %d", copied, sharedBytes-1)
	}
	same := func(g *GroupLog) {
		t.Helper()
		for _, e := range slices.Concat(es, more) {
			var got raft.Log
			if ok(t, g.GetLog(e.Index, &got)); !bytes.Equal(got.Data, e.Data) || got.Term != e.Term {
				t.Errorf("entry %d: %d bytes of term %d", e.Index, len(got.Data), got.Term)
			}
		}
	}
	same(g)
	release()
	ok(t, g.Sync())
	same(g)
	ok(t, l.Close())
	l = open(t, d, c)
	same(groupOf(t, l, 7))
}
