package wal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// written returns a directory with a sealed segment and one that was cut off by a crash.
func written(t *testing.T) *vfs.Mem {
	t.Helper()
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	for i := uint64(1); i <= 20; i++ {
		for group := id.GroupID(1); group <= 3; group++ {
			stored(t, groupOf(t, l, group), entries(i, 1, 1, 100))
		}
	}
	next := d.Crash(vfs.LoseAll, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	return next
}

// place returns segment and offset of entry 3 of group 2.
func place(t *testing.T, d *vfs.Mem) (name string, off int64) {
	t.Helper()
	l := open(t, d, testConfig())
	defer func() { ok(t, l.Close()) }()
	at := groupOf(t, l, 2).ix.get(3)
	return segmentName(at.seg), int64(at.off)
}

// A damaged entry of a sealed segment loses its group alone, from the first reading on
// and after every start, until the group is deleted. Segment, offset and remedy are named.
func TestDamagedEntryLosesItsGroup(t *testing.T) {
	d := written(t)
	name, off := place(t, d)
	d.Flip(name, off+HeadBytes+2)
	c := testConfig()
	lost := make(chan id.GroupID, 1)
	c.OnLost = func(group id.GroupID, _ error) { lost <- group }
	l := open(t, d, c)
	g := groupOf(t, l, 2)
	var e raft.Log
	err := g.GetLog(3, &e)
	var corrupt *CorruptError
	if !errors.Is(err, ErrLost) || !errors.As(err, &corrupt) || corrupt.Segment != "memory/"+name || corrupt.Offset != off ||
		!strings.Contains(err.Error(), "delete it here and let it be rebuilt") {
		t.Fatalf("error is %v", err)
	}
	if <-lost != 2 {
		t.Error("another group was reported")
	}
	for range 2 {
		if err := g.SetUint64([]byte(keyTerm), 9); !errors.Is(err, ErrLost) {
			t.Errorf("a lost group stored a term: %v", err)
		}
		if err := g.GetLog(4, &e); !errors.Is(err, ErrLost) {
			t.Errorf("a lost group reads: %v", err)
		}
		ok(t, groupOf(t, l, 1).GetLog(3, &e))
		if all := l.Lost(); len(all) != 1 || all[2] == nil || l.Stats().Lost != 1 {
			t.Errorf("lost are %v", all)
		}
		ok(t, l.Close())
		l = open(t, d, c)
		g = groupOf(t, l, 2)
	}
	ok(t, l.Delete(2))
	stored(t, groupOf(t, l, 2), entries(1, 5, 2, 100))
	ok(t, l.Close())
	if l = open(t, d, c); len(l.Lost()) > 0 {
		t.Errorf("lost are %v", l.Lost())
	}
}

// Compaction meets the damage too.
func TestDamageFoundByCompaction(t *testing.T) {
	d := written(t)
	name, off := place(t, d)
	d.Flip(name, off+HeadBytes+2)
	l := open(t, d, testConfig())
	l.mu.Lock()
	seq, _ := parseName(name)
	s := l.bySeq[seq]
	l.mu.Unlock()
	settled(l)
	ok(t, l.carry([]*segment{s}))
	if all := l.Lost(); len(all) != 1 || all[2] == nil {
		t.Errorf("lost are %v", all)
	}
	if got := look(t, groupOf(t, l, 1)); !strings.HasPrefix(got, "log 1..20") {
		t.Error(got)
	}
}

// A damaged footer is made again by scanning; a damaged record besides stops the start.
func TestDamagedFooter(t *testing.T) {
	d := written(t)
	name, off := place(t, d) // it also seals the last segment
	l := open(t, d, testConfig())
	seq, _ := parseName(name)
	end := l.bySeq[seq].end
	before := look(t, groupOf(t, l, 2))
	ok(t, l.Close())
	d.Flip(name, l.bySeq[seq].size-10) // the trailer
	l = open(t, d, testConfig())
	if got := look(t, groupOf(t, l, 2)); got != before {
		t.Errorf("got  %s\nwant %s", got, before)
	}
	ok(t, l.Close())
	d.Flip(name, off+20)
	l = open(t, d, testConfig()) // the trailer was made again
	ok(t, l.Close())
	d.Flip(name, end+HeadBytes+4)
	_, err := Open(d, testConfig())
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Segment != "memory/"+name || corrupt.Offset != off ||
		!strings.Contains(err.Error(), "remove the node's data directory") {
		t.Errorf("error is %v", err)
	}
}

// In the last segment, damage to what was durable before something else was appended is
// told from a torn write.
func TestDamageIsNotATornWrite(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g := groupOf(t, l, 1)
	for i := uint64(1); i <= 4; i++ {
		stored(t, g, entries(i, 1, 1, 300))
	}
	at := g.ix.get(2)
	last := g.ix.get(4)
	crashed := d.Crash(vfs.LoseNone, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	crashed.Flip(segmentName(at.seg), int64(at.off)+60)
	_, err := Open(crashed, testConfig())
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset != int64(at.off) {
		t.Errorf("error is %v", err)
	}
	crashed.Flip(segmentName(at.seg), int64(at.off)+60)
	crashed.Flip(segmentName(last.seg), int64(last.off)+60) // nothing is behind it: a torn write
	l = open(t, crashed, testConfig())
	if got, _ := groupOf(t, l, 1).LastIndex(); got != 3 {
		t.Errorf("last index is %d", got)
	}
}

func TestDamagedHeader(t *testing.T) {
	for _, off := range []int64{0, 9, 13, 17} {
		d := written(t)
		d.Flip(segmentName(1), off)
		var corrupt *CorruptError
		if _, err := Open(d, testConfig()); !errors.As(err, &corrupt) || corrupt.Segment != "memory/00000001.wal" || corrupt.Offset != 0 {
			t.Errorf("byte %d: error is %v", off, err)
		}
	}
}

// A segment that is gone takes the groups whose entries it held.
func TestMissingSegment(t *testing.T) {
	d := written(t)
	name, _ := place(t, d)
	l := open(t, d, testConfig())
	seq, _ := parseName(name)
	var hit []id.GroupID
	for group := id.GroupID(1); group <= 3; group++ {
		groupOf(t, l, group).ix.all(span{1, 21}, func(_ uint64, at loc) bool {
			if at.seg == seq && !slices.Contains(hit, group) {
				hit = append(hit, group)
			}
			return true
		})
	}
	ok(t, l.Close())
	ok(t, d.Remove(name))
	l = open(t, d, testConfig())
	lost := l.Lost()
	if len(lost) != len(hit) {
		t.Errorf("lost are %v, hit were %v", lost, hit)
	}
	for _, err := range lost {
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "is gone") {
			t.Errorf("error is %v", err)
		}
	}
}

// A second process is kept out.
func TestLocked(t *testing.T) {
	for name, dir := range dirs(t) {
		d := dir()
		l := open(t, d, testConfig())
		if _, err := Open(d, testConfig()); err == nil || !strings.Contains(err.Error(), "locked by another process") {
			t.Errorf("%s: %v", name, err)
		}
		ok(t, l.Close())
		ok(t, open(t, d, testConfig()).Close())
	}
}
