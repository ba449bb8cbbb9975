package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

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
		!strings.Contains(err.Error(), "it is rebuilt from its peers") {
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
	rollerIdle(l)
	ok(t, l.carry([]*segment{s}))
	if all := l.Lost(); len(all) != 1 || all[2] == nil {
		t.Errorf("lost are %v", all)
	}
	if got := look(t, groupOf(t, l, 1)); !strings.HasPrefix(got, "log 1..20") {
		t.Error(got)
	}
}

// A damaged footer is made again by scanning; a damaged record besides takes its group, whose
// it was is in a list.
func TestDamagedFooter(t *testing.T) {
	d := written(t)
	name, off := place(t, d) // it also seals the last segment
	l := open(t, d, testConfig())
	seq, _ := parseName(name)
	end := l.bySeq[seq].end
	before := [3]string{look(t, groupOf(t, l, 1)), look(t, groupOf(t, l, 2)), look(t, groupOf(t, l, 3))}
	ok(t, l.Close())
	d.Flip(name, l.bySeq[seq].size-10) // the trailer
	l = open(t, d, testConfig())
	if got := look(t, groupOf(t, l, 2)); got != before[1] {
		t.Errorf("got  %s\nwant %s", got, before[1])
	}
	ok(t, l.Close())
	d.Flip(name, off+20)
	l = open(t, d, testConfig()) // the trailer was made again
	ok(t, l.Close())
	d.Flip(name, end+HeadBytes+4)
	l = open(t, d, testConfig())
	var e raft.Log
	if err := groupOf(t, l, 2).GetLog(3, &e); !errors.Is(err, ErrLost) {
		t.Errorf("error is %v", err)
	}
	if a, b := look(t, groupOf(t, l, 1)), look(t, groupOf(t, l, 3)); a != before[0] || b != before[2] {
		t.Errorf("others are %s\n%s", a, b)
	}
}

// In the last segment, damage to what was durable before something else was appended is
// distinguished from a torn write. Without a list nobody knows whose it was: all groups are lost, and
// so may be one that is not known of.
func TestDamageIsNotATornWrite(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g := groupOf(t, l, 1)
	for i := uint64(1); i <= 4; i++ {
		stored(t, g, entries(i, 1, 1, 300))
	}
	at := g.ix.get(2)
	last := g.ix.get(4)
	damaged := d.Crash(vfs.LoseNone, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	torn := damaged.Clone()
	damaged.Flip(segmentName(at.seg), int64(at.off)+60)
	l = open(t, damaged, testConfig())
	if len(l.Lost()) != 1 || l.Gap() == nil || !strings.Contains(l.Gap().Error(), fmt.Sprintf("offset %d", at.off)) {
		t.Errorf("lost are %v, the gap is %v", l.Lost(), l.Gap())
	}
	torn.Flip(segmentName(last.seg), int64(last.off)+60) // nothing is behind it: a torn write
	l = open(t, torn, testConfig())
	if got, _ := groupOf(t, l, 1).LastIndex(); got != 3 || l.Gap() != nil {
		t.Errorf("last index is %d, %v", got, l.Gap())
	}
}

// A record that is in no list takes all groups, at this start and after it, and the gap
// lasts until somebody says which groups without records it has taken.
func TestGap(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	for i := uint64(1); i <= 4; i++ {
		for group := id.GroupID(1); group <= 2; group++ {
			stored(t, groupOf(t, l, group), entries(i, 1, 1, 100))
		}
	}
	at := groupOf(t, l, 1).ix.get(2)
	d = d.Crash(vfs.LoseNone, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	d.Flip(segmentName(at.seg), int64(at.off)+60)
	for round := range 3 {
		l = open(t, d, testConfig())
		if lost := l.Lost(); len(lost) != 2 || !errors.Is(l.Gap(), ErrLost) {
			t.Fatalf("round %d: lost are %v, the gap is %v", round, lost, l.Gap())
		}
		if round == 0 { // it crashes before it has notified the groups
			d = d.Crash(vfs.LoseAll, rand.New(rand.NewPCG(1, 1)))
			_ = l.Close() // its disk is off
			continue
		}
		ok(t, l.Close())
	}
	l = open(t, d, testConfig())
	ok(t, l.EndGap([]id.GroupID{1, 9}))
	for range 2 {
		if lost := l.Lost(); len(lost) != 3 || lost[9] == nil || l.Gap() != nil {
			t.Fatalf("lost are %v, the gap is %v", lost, l.Gap())
		}
		ok(t, l.Close())
		l = open(t, d, testConfig())
	}
	for _, group := range []id.GroupID{1, 2, 9} {
		ok(t, l.Delete(group))
	}
	stored(t, groupOf(t, l, 1), entries(1, 5, 2, 100))
	ok(t, l.Close())
	if l = open(t, d, testConfig()); len(l.Lost()) > 0 || l.Gap() != nil {
		t.Errorf("lost are %v, the gap is %v", l.Lost(), l.Gap())
	}
}

// A segment that others follow is cut short, to half or to nothing: what was there is missing, and the log opens.
func TestSegmentCutShort(t *testing.T) {
	for name, share := range map[string]int64{"half": 2, "all but a header": 0} {
		t.Run(name, func(t *testing.T) {
			d := written(t)
			segment, _ := place(t, d)
			f, err := d.Open(segment)
			ok(t, err)
			size, err := f.Size()
			ok(t, err)
			left := int64(headerBytes)
			if share > 0 {
				left = size / share
			}
			ok(t, f.Truncate(left))
			ok(t, f.Sync())
			ok(t, f.Close())
			for range 2 {
				l := open(t, d, testConfig())
				if l.Gap() == nil && len(l.Lost()) == 0 {
					t.Error("nothing is missing")
				}
				ok(t, l.Close())
			}
		})
	}
}

// One bit is flipped at every place of a log that was cut off, and of one that was closed. A
// group is as it was, or lost; only the one whose record it is can be; and no start fails.
func TestFlipEverywhere(t *testing.T) {
	for name, closed := range map[string]bool{"cut off": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			d := vfs.NewMem()
			c := testConfig()
			c.markAfter = time.Nanosecond
			l := open(t, d, c)
			for i := uint64(1); i <= 9; i++ {
				for group := id.GroupID(1); group <= 3; group++ {
					g := groupOf(t, l, group)
					stored(t, g, entries(i, 1, 1, 150))
					if i == 4 {
						ok(t, g.SetUint64([]byte(keyVoteTerm), 2))
						ok(t, g.Set([]byte(keyVoteFor), []byte("n1")))
						ok(t, g.DeleteRange(1, 2))
					}
				}
			}
			marked(t, l)
			want := map[id.GroupID]string{}
			for group := id.GroupID(1); group <= 3; group++ {
				want[group] = look(t, groupOf(t, l, group))
			}
			if closed {
				ok(t, l.Close())
			}
			d = d.Crash(vfs.LoseNone, rand.New(rand.NewPCG(1, 1)))
			_ = l.Close() // its disk is off
			names, err := Segments(d)
			ok(t, err)
			hit := 0
			stride := int64(1)
			if testing.Short() {
				stride = 11
			}
			for _, name := range names {
				f, err := d.Open(name)
				ok(t, err)
				size, err := f.Size()
				ok(t, err)
				for at := int64(0); at < size; at += stride {
					hit += flipped(t, d.Clone(), name, at, want)
				}
			}
			if hit == 0 {
				t.Error("no flip hit a group")
			}
		})
	}
}

// marked waits until the end of the log is marked.
func marked(t *testing.T, l *Log) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		done := l.marked == l.synced && l.pending == 0
		l.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the end is not marked")
		}
	}
}

// flipped flips a bit and returns how many groups that costs.
func flipped(t *testing.T, d *vfs.Mem, name string, at int64, want map[id.GroupID]string) int {
	t.Helper()
	d.Flip(name, at)
	lost := 0
	for round := range 2 {
		l, err := Open(d, testConfig())
		if err != nil {
			t.Fatalf("%s, byte %d, round %d: %v", name, at, round, err)
		}
		if l.Gap() != nil {
			t.Fatalf("%s, byte %d, round %d: %v", name, at, round, l.Gap())
		}
		lost = 0
		for group, want := range want {
			g := groupOf(t, l, group)
			var e raft.Log
			for i := uint64(1); i < maxIndex && g.l.LostGroup(group) == nil; i++ {
				_, _ = g.GetLog(i, &e), g.Entry(i, &e)
			}
			if l.LostGroup(group) != nil {
				lost++
			} else if got := look(t, g); got != want {
				t.Fatalf("%s, byte %d, round %d: group %s:\ngot  %s\nwant %s", name, at, round, group, got, want)
			}
		}
		if lost > 1 {
			t.Fatalf("%s, byte %d, round %d: lost are %v", name, at, round, l.Lost())
		}
		ok(t, l.Close())
	}
	return lost
}

func TestDamagedHeader(t *testing.T) {
	d := written(t)
	l := open(t, d, testConfig())
	want := look(t, groupOf(t, l, 2))
	ok(t, l.Close())
	for _, off := range []int64{0, 9, 13, 17} {
		d.Flip(segmentName(1), off)
		l := open(t, d, testConfig())
		if got := look(t, groupOf(t, l, 2)); got != want || len(l.Lost()) > 0 {
			t.Errorf("byte %d: lost %v, got %s", off, l.Lost(), got)
		}
		ok(t, l.Close())
		f, err := d.Open(segmentName(1))
		ok(t, err)
		if _, err := readHeader(f, 1); err != nil {
			t.Errorf("byte %d: the header was not mended: %v", off, err)
		}
	}
}

// A header of another version is no damage: nothing is touched.
func TestOtherVersion(t *testing.T) {
	d := written(t)
	f, err := d.Open(segmentName(1))
	ok(t, err)
	h := header(1, goldenSecret)
	h[8]++
	binary.LittleEndian.PutUint32(h[24:], checksum(h[:24]))
	_, err = f.WriteAt(h, 0)
	ok(t, err)
	before := d.Count(vfs.OpAny)
	if _, err := Open(d, testConfig()); !errors.Is(err, errVersion) || d.Count(vfs.OpAny) != before {
		t.Errorf("error is %v, %d operations", err, d.Count(vfs.OpAny)-before)
	}
}

// A segment of which nothing can be read is set aside.
func TestUnreadableSegment(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	stored(t, groupOf(t, l, 1), entries(1, 1, 1, 100))
	ok(t, l.Close())
	f, err := d.Open(segmentName(1))
	ok(t, err)
	size, err := f.Size()
	ok(t, err)
	_, err = f.WriteAt(make([]byte, size), 0)
	ok(t, err)
	for range 2 {
		l = open(t, d, testConfig())
		if !errors.Is(l.Gap(), ErrLost) {
			t.Errorf("the gap is %v", l.Gap())
		}
		if l.secret == 0 {
			t.Error("the log has no secret")
		}
		ok(t, l.Close())
	}
	l = open(t, d, testConfig())
	ok(t, l.EndGap(nil))
	if names, err := d.List(); err != nil || !slices.Contains(names, damagedPrefix+segmentName(1)) || slices.Contains(names, segmentName(1)) {
		t.Errorf("files are %v, %v", names, err)
	}
	ok(t, l.EndGap(nil))
	ok(t, l.Close())
	if l = open(t, d, testConfig()); l.Gap() != nil {
		t.Errorf("the gap is %v", l.Gap())
	}
}

// Nothing of a log can be read, and the power goes at every operation of the start and of the end of the gap, in turn: no
// start takes the group for one without records whose vote was there.
func TestPowerCutAtUnreadableSegment(t *testing.T) {
	base := vfs.NewMem()
	l := open(t, base, testConfig())
	stored(t, groupOf(t, l, 1), entries(1, 1, 3, 300))
	ok(t, l.Close())
	f, err := base.Open(segmentName(1))
	ok(t, err)
	size, err := f.Size()
	ok(t, err)
	_, err = f.WriteAt(make([]byte, size), 0)
	ok(t, errors.Join(err, f.Sync(), f.Close()))
	cut := true
	for n := 1; cut; n++ {
		for loss := range vfs.Losses {
			d := base.Clone()
			d.PowerOffAt(vfs.OpAny, n)
			l, err := Open(d, testConfig())
			if err == nil {
				err = l.EndGap([]id.GroupID{1})
			}
			next := d.Crash(loss, rand.New(rand.NewPCG(uint64(n), uint64(loss))))
			if l != nil {
				_ = l.Close() // its disk is off
			}
			cut = err != nil
			for range 2 {
				l = open(t, next, testConfig())
				if l.Gap() == nil && l.LostGroup(1) == nil {
					t.Errorf("power off at operation %d, loss %d: %v: nothing is missing", n, loss, err)
				}
				if !cut && l.Gap() != nil {
					t.Errorf("after its end the gap is %v", l.Gap())
				}
				ok(t, l.Close())
			}
		}
	}
}

// Without an inventory, a segment that is gone takes the groups whose entries it held.
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
	ok(t, d.Remove(inventoryName))
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
