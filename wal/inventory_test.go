package wal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// votes stores a group's vote, durably.
func votes(t *testing.T, g *GroupLog, term uint64) {
	t.Helper()
	ok(t, g.SetUint64([]byte(keyTerm), term))
	ok(t, g.SetUint64([]byte(keyVoteTerm), term))
	ok(t, g.Set([]byte(keyVoteFor), []byte("node-2")))
}

// quietGroups writes a log of many segments, some of which were freed. Group 1 has voted in the first, and again in one in
// the middle, and group 2 has all of its records in another one. It returns the segments with the newest state of each.
func quietGroups(t *testing.T, d vfs.Dir) map[id.GroupID]uint32 {
	t.Helper()
	l, err := Open(d, testConfig())
	ok(t, err)
	busy, next := groupOf(t, l, 7), uint64(1)
	fill := func() {
		stored(t, busy, entries(next, 1, 30, 300))
		next += 30
	}
	votes(t, groupOf(t, l, 1), 3)
	fill()
	votes(t, groupOf(t, l, 1), 4)
	fill()
	votes(t, groupOf(t, l, 2), 1)
	fill()
	ok(t, drop(busy, next-2, nil))
	rollerIdle(l)
	if freed, err := l.freeDead(); !freed || err != nil {
		t.Fatalf("no segment was freed: %v, %+v", err, l.Stats())
	}
	at := map[id.GroupID]uint32{1: groupOf(t, l, 1).at.seg, 2: groupOf(t, l, 2).at.seg}
	ok(t, l.Close())
	return at
}

// A segment is missing, and everything that the others have makes sense: all groups count as lost, and so they do until
// the owner of the log has said which groups there are.
func TestMissingSegmentOfQuietGroups(t *testing.T) {
	t.Parallel()
	for _, group := range []id.GroupID{1, 2} {
		d := vfs.NewMem()
		at := quietGroups(t, d)
		l, err := Open(d, testConfig())
		ok(t, err)
		if l.Gap() != nil || len(l.Lost()) > 0 {
			t.Fatalf("nothing is missing: %v, %v", l.Gap(), l.Lost())
		}
		ok(t, l.Close())
		ok(t, d.Remove(segmentName(at[group])))
		for range 2 { // a start that nothing follows changes nothing
			l, err = Open(d, testConfig())
			ok(t, err)
			if gap := l.Gap(); gap == nil || !errors.Is(gap, ErrLost) {
				t.Fatalf("the segment with the state of group %d is missing: %v", group, gap)
			}
			if l.LostGroup(7) == nil || l.Has(1) && l.LostGroup(1) == nil {
				t.Errorf("the groups %v are lost", l.Lost())
			}
			ok(t, l.Close())
		}
		l, err = Open(d, testConfig())
		ok(t, err)
		ok(t, l.EndGap([]id.GroupID{1, 2}))
		if lost := slices.Sorted(maps.Keys(l.Lost())); !slices.Equal(lost, []id.GroupID{1, 2, 7}) {
			t.Errorf("the groups %v are lost", lost)
		}
		for _, g := range []id.GroupID{1, 2, 7} {
			ok(t, l.Delete(g))
		}
		votes(t, groupOf(t, l, 1), 5)
		ok(t, l.Close())
		l, err = Open(d, testConfig())
		ok(t, err)
		if l.Gap() != nil || len(l.Lost()) > 0 {
			t.Errorf("after the end of the gap: %v, %v", l.Gap(), l.Lost())
		}
		ok(t, l.Close())
	}
}

// lacksMiddle, lacksNewest and lacksAll harm the log that quietGroups has written.
func lacksMiddle(t *testing.T, d vfs.Dir, at map[id.GroupID]uint32) {
	t.Helper()
	ok(t, d.Remove(segmentName(at[2])))
}

// lacksNewest leaves the segment before the one that is missing, whose number is the next then.
func lacksNewest(t *testing.T, d vfs.Dir, _ map[id.GroupID]uint32) {
	t.Helper()
	l := open(t, d, testConfig())
	stored(t, groupOf(t, l, 8), entries(1, 1, 30, 300))
	ok(t, l.writeInventory(l.files))
	newest := l.head.seq
	ok(t, l.Close())
	_, err := d.Open(segmentName(newest - 1))
	ok(t, err)
	ok(t, d.Remove(segmentName(newest)))
}

func lacksAll(t *testing.T, d vfs.Dir, _ map[id.GroupID]uint32) {
	t.Helper()
	names, err := Segments(d)
	ok(t, err)
	for _, name := range names {
		ok(t, d.Remove(name))
	}
}

// The power goes at every operation of the start that misses segments, and of the end of the gap, in turn: no start takes the
// group for one without records whose only state was there, also not because a new segment has got the missing one's number.
func TestPowerCutAtMissingSegment(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*testing.T, vfs.Dir, map[id.GroupID]uint32){"one": lacksMiddle, "newest": lacksNewest, "all": lacksAll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := vfs.NewMem()
			harm(t, base, quietGroups(t, base))
			cut := true
			for n := 1; cut; n++ {
				for loss := range vfs.Losses {
					d := base.Clone()
					d.PowerOffAt(vfs.OpAny, n)
					l, err := Open(d, testConfig())
					if err == nil {
						err = l.EndGap([]id.GroupID{1, 2, 7})
					}
					next := d.Crash(loss, rand.New(rand.NewPCG(uint64(n), uint64(loss))))
					if l != nil {
						_ = l.Close() // its disk is off
					}
					cut = err != nil
					l = open(t, next, testConfig())
					if l.Gap() == nil && l.LostGroup(2) == nil {
						t.Errorf("power off at operation %d, loss %d: %v: nothing is missing", n, loss, err)
					}
					if !cut && l.Gap() != nil {
						t.Errorf("after its end the gap is %v", l.Gap())
					}
					ok(t, l.Close())
				}
			}
		})
	}
}

// heldBegins is a directory in which no file of a new segment is made until it may be.
type heldBegins struct {
	*vfs.Mem
	may chan struct{}
}

func (d heldBegins) Create(name string) (vfs.File, error) {
	if name == newName {
		<-d.may
	}
	return d.Mem.Create(name)
}

// A segment that has records in memory and no file yet is not in the inventory: after a crash it never was.
func TestInventoryOfSegmentsWithoutFiles(t *testing.T) {
	t.Parallel()
	for loss := range vfs.Losses {
		d := heldBegins{vfs.NewMem(), make(chan struct{})}
		l, err := Open(d, testConfig())
		ok(t, err)
		ok(t, groupOf(t, l, 7).StoreLogs(entries(1, 1, 30, 300))) // it does not wait for the disk
		if n := l.Stats().Segments; n < 2 {
			t.Fatalf("%d segments", n)
		}
		ok(t, l.writeInventory(l.files))
		crashed := d.Crash(loss, rand.New(rand.NewPCG(1, uint64(loss))))
		close(d.may)
		_ = l.Close() // its disk is off
		for range 2 {
			l = open(t, crashed, testConfig())
			if l.Gap() != nil {
				t.Errorf("loss %d: %v", loss, l.Gap())
			}
			stored(t, groupOf(t, l, 8), entries(1, 1, 1, 300))
			ok(t, l.Delete(8))
			ok(t, l.Close())
		}
	}
}

// deadAndAhead returns a log whose first segments may be freed, and that has made a file ahead, with the next entry of group 7.
func deadAndAhead(t *testing.T, d vfs.Dir) (l *Log, next uint64) {
	t.Helper()
	l = open(t, d, testConfig())
	g := groupOf(t, l, 7)
	next = 1
	add := func() {
		t.Helper()
		stored(t, g, entries(next, 1, 1, 300))
		next++
		rollerIdle(l)
	}
	for l.Stats().Segments < 3 {
		add()
	}
	ok(t, drop(g, next-2, nil))
	for l.ahead == nil {
		add()
	}
	return l, next
}

// The file that was made ahead is not missed when Close has removed it, nor after a crash.
func TestInventoryBesideAFileMadeAhead(t *testing.T) {
	t.Parallel()
	ends := map[string]func(d *vfs.Mem, l *Log) *vfs.Mem{
		"closed": func(d *vfs.Mem, l *Log) *vfs.Mem { ok(t, l.Close()); return d },
		"killed": func(d *vfs.Mem, _ *Log) *vfs.Mem { return d.Clone() },
	}
	for loss := range vfs.Losses {
		ends[fmt.Sprintf("power off, loss %d", loss)] = func(d *vfs.Mem, _ *Log) *vfs.Mem {
			return d.Crash(loss, rand.New(rand.NewPCG(1, uint64(loss))))
		}
	}
	for name, end := range ends {
		d := vfs.NewMem()
		l, _ := deadAndAhead(t, d)
		if freed, err := l.freeDead(); !freed || err != nil {
			t.Fatalf("freed: %v, %v", freed, err)
		}
		next := open(t, end(d, l), testConfig())
		if next.Gap() != nil || len(next.Lost()) > 0 {
			t.Errorf("%s: %v, %v", name, next.Gap(), next.Lost())
		}
		ok(t, next.Close())
	}
}

// The file that was made ahead is missed once it is used, without a newer inventory.
func TestMissingSegmentMadeAhead(t *testing.T) {
	t.Parallel()
	d := vfs.NewMem()
	l, next := deadAndAhead(t, d)
	ahead := l.ahead.seq
	if freed, err := l.freeDead(); !freed || err != nil {
		t.Fatalf("freed: %v, %v", freed, err)
	}
	stored(t, groupOf(t, l, 7), entries(next, 1, 30, 300))
	ok(t, l.Close())
	ok(t, d.Remove(segmentName(ahead)))
	l = open(t, d, testConfig())
	if gap := l.Gap(); gap == nil || !strings.Contains(gap.Error(), segmentName(ahead)) {
		t.Errorf("%s is missing: %v", segmentName(ahead), gap)
	}
	ok(t, l.Close())
}

// The newest segments are freed, and then others, before anything is written: the numbers of those that are gone are not
// missed between the ones that are left and the next.
func TestInventoryBehindTheNewest(t *testing.T) {
	t.Parallel()
	d := vfs.NewMem()
	l, next := deadAndAhead(t, d)
	newest := l.ahead.seq
	crashed := d.Crash(vfs.LoseAll, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	l = open(t, crashed, testConfig())
	l.mu.Lock()
	read := l.segs[0]
	read.refs++ // somebody reads it
	l.mu.Unlock()
	freed := func() {
		t.Helper()
		if freed, err := l.freeDead(); !freed || err != nil {
			t.Fatalf("freed: %v, %v, %+v", freed, err, l.Stats())
		}
	}
	freed()
	l.mu.Lock()
	left := l.bySeq[newest]
	read.refs--
	l.mu.Unlock()
	if left != nil || read.live != 0 {
		t.Fatalf("the newest segment is %+v, the first %+v", left, read)
	}
	freed()
	stored(t, groupOf(t, l, 7), entries(next, 1, 1, 300))
	ok(t, l.Close())
	for range 2 {
		l = open(t, crashed, testConfig())
		if l.Gap() != nil || len(l.Lost()) > 0 {
			t.Errorf("%v, %v", l.Gap(), l.Lost())
		}
		ok(t, l.Close())
	}
}

// A log whose segments are all freed continues with the next number.
func TestInventoryOfAnEmptyLog(t *testing.T) {
	t.Parallel()
	d := vfs.NewMem()
	for range 3 {
		l := open(t, d, testConfig())
		stored(t, groupOf(t, l, 7), entries(1, 1, 3, 300))
		ok(t, l.Delete(7))
		ok(t, l.Close())
		l = open(t, d, testConfig())
		ok(t, l.tidy())
		if l.Gap() != nil || l.Stats().Segments > 0 {
			t.Errorf("gap: %v, %+v", l.Gap(), l.Stats())
		}
		ok(t, l.Close())
	}
}

// An inventory that is damaged, or cannot be read, costs nothing: it is written anew.
func TestDamagedInventory(t *testing.T) {
	t.Parallel()
	base := vfs.NewMem()
	quietGroups(t, base)
	size := int64(inventoryBytes(t, base))
	whole := func(d *vfs.Mem, what string) {
		t.Helper()
		for range 2 {
			l := open(t, d, testConfig())
			if l.Gap() != nil || len(l.Lost()) > 0 {
				t.Errorf("%s: %v, %v", what, l.Gap(), l.Lost())
			}
			ok(t, l.Close())
		}
		f, err := d.Open(inventoryName)
		ok(t, err)
		b := make([]byte, inventoryBytes(t, d))
		ok(t, errors.Join(readFull(f, b, 0), f.Close()))
		if _, intact := parseInventory(b); !intact {
			t.Errorf("%s: the inventory was not written anew", what)
		}
	}
	for at := range size {
		d := base.Clone()
		d.Flip(inventoryName, at)
		whole(d, fmt.Sprintf("byte %d", at))
	}
	d := base.Clone()
	f, err := d.Open(inventoryName)
	ok(t, err)
	ok(t, errors.Join(f.Truncate(size/2), f.Sync(), f.Close()))
	whole(d, "half of it")

	d = base.Clone()
	f, err = d.Open(inventoryName)
	ok(t, err)
	_, err = f.WriteAt([]byte{1}, maxInventoryBytes)
	ok(t, errors.Join(err, f.Sync(), f.Close()))
	whole(d, "too large")

	d = base.Clone()
	l := open(t, d, testConfig())
	reads := d.Count(vfs.OpRead) // the last one is that of the inventory
	ok(t, l.Close())
	d = base.Clone()
	d.FailAt(vfs.OpRead, reads, errors.New("bad sector"))
	whole(d, "unreadable")
}

// A build that knows no inventories removes it with the spares, and frees segments without one.
func TestInventoryOfAnOlderBuild(t *testing.T) {
	t.Parallel()
	d := vfs.NewMem()
	at := quietGroups(t, d)
	if !strings.HasPrefix(inventoryName, sparePrefix) {
		t.Fatalf("an older build leaves %s", inventoryName)
	}
	ok(t, d.Remove(inventoryName))
	ok(t, d.Remove(segmentName(at[2])))
	for range 2 {
		l, err := Open(d, testConfig())
		ok(t, err)
		if l.Gap() != nil {
			t.Error(l.Gap())
		}
		ok(t, l.Close())
	}
	if _, err := d.Open(inventoryName); err != nil {
		t.Errorf("the start has written none: %v", err)
	}
}

// Segments are freed on a full disk too: the inventory, for which there is no room at one of its steps, goes.
func TestInventoryOnAFullDisk(t *testing.T) {
	t.Parallel()
	full := &fs.PathError{Op: "write", Path: inventoryName, Err: syscall.ENOSPC}
	for name, fill := range map[string]func(d *vfs.Mem){
		"no byte is free":        func(d *vfs.Mem) { d.SetCapacity(d.Used()) },
		"create":                 func(d *vfs.Mem) { d.FailAt(vfs.OpName, 1, full) },
		"write":                  func(d *vfs.Mem) { d.FailAt(vfs.OpWrite, 1, full) },
		"sync":                   func(d *vfs.Mem) { d.FailAt(vfs.OpSync, 1, full) },
		"rename":                 func(d *vfs.Mem) { d.FailAt(vfs.OpName, 2, full) },
		"sync of the directory":  func(d *vfs.Mem) { d.FailAt(vfs.OpSync, 2, full) },
		"the quota is exhausted": func(d *vfs.Mem) { d.FailAt(vfs.OpWrite, 1, syscall.EDQUOT) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for loss := range vfs.Losses {
				d := vfs.NewMem()
				l := open(t, d, testConfig())
				g := groupOf(t, l, 7)
				stored(t, g, entries(1, 1, 60, 300))
				ok(t, drop(g, 59, nil))
				rollerIdle(l)
				before := l.Stats().Segments
				fill(d)
				_, err := l.freeDead()
				ok(t, err)
				if after := l.Stats().Segments; after >= before {
					t.Errorf("%d segments, before there were %d", after, before)
				}
				if _, err := d.Open(inventoryName); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("an inventory that names freed segments is left: %v", err)
				}
				ok(t, l.Failed())
				crashed := d.Crash(loss, rand.New(rand.NewPCG(1, uint64(loss))))
				_ = l.Close() // its disk is off
				l = open(t, crashed, testConfig())
				if l.Gap() != nil || len(l.Lost()) > 0 {
					t.Errorf("after a crash with loss %d: %v, %v", loss, l.Gap(), l.Lost())
				}
				ok(t, l.Close())
			}
		})
	}
}

// A start without an inventory on a full disk continues without one, and the next one writes it.
func TestInventoryOfAStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := vfs.NewMem()
	quietGroups(t, d)
	ok(t, d.Remove(inventoryName))
	d.FailAt(vfs.OpWrite, 1, &fs.PathError{Op: "write", Path: newInventoryName, Err: syscall.ENOSPC})
	for _, missing := range []error{fs.ErrNotExist, nil} {
		l := open(t, d, testConfig())
		if l.Gap() != nil || len(l.Lost()) > 0 {
			t.Errorf("%v, %v", l.Gap(), l.Lost())
		}
		ok(t, l.Close())
		if _, err := d.Open(inventoryName); !errors.Is(err, missing) {
			t.Errorf("the inventory: %v, want %v", err, missing)
		}
		if _, err := d.Open(newInventoryName); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what could not be written is left: %v", err)
		}
	}
}

// A thousand segments cost a log nothing while they begin, and one file when they are freed together. Of many that are
// missing some are named.
func TestInventoryOfManySegments(t *testing.T) {
	t.Parallel()
	const many, each, gone = 1000, 11, 2 * missingNamed
	base := vfs.NewMem()
	l := open(t, base, testConfig())
	empty := inventoryBytes(t, base)
	stored(t, groupOf(t, l, 7), entries(1, 1, many*each, 300))
	rollerIdle(l)
	if n := l.Stats().Segments; n < many*9/10 || inventoryBytes(t, base) != empty {
		t.Fatalf("%d segments and %d bytes of inventory, it had %d", n, inventoryBytes(t, base), empty)
	}
	ok(t, l.writeInventory(l.files))
	ok(t, l.Close())

	d := base.Clone()
	for n := range gone {
		ok(t, d.Remove(segmentName(uint32(many/2+2*n))))
	}
	l = open(t, d, testConfig())
	if gap := l.Gap(); gap == nil || strings.Count(gap.Error(), segmentSuffix) != missingNamed {
		t.Errorf("%d segments are missing: %v", gone, gap)
	}
	ok(t, l.Close())

	l = open(t, base, testConfig())
	ok(t, drop(groupOf(t, l, 7), many*each-1, nil))
	rollerIdle(l)
	segments, syncs := l.Stats().Segments, base.Count(vfs.OpSync)
	if freed, err := l.freeDead(); !freed || err != nil {
		t.Fatalf("freed: %v, %v", freed, err)
	}
	const wanted = 3 // the inventory, its name, and the names of all that is freed
	if syncs, left := base.Count(vfs.OpSync)-syncs, l.Stats().Segments; syncs != wanted || segments-left < many/2 {
		t.Errorf("%d syncs for %d segments of %d", syncs, segments-left, segments)
	}
	ok(t, l.Close())
}

// The bytes of version 1; docs/formats/wal-segment.md explains them.
func TestGoldenInventory(t *testing.T) {
	t.Parallel()
	const file = "testdata/inventory_v1.hex"
	v := inventory{secret: goldenSecret, upTo: 9, there: []span{{2, 3}, {5, 8}}}
	b := v.encode()
	if *rewrite {
		ok(t, os.WriteFile(file, []byte(hex.Dump(b)), 0o600))
	}
	want, err := os.ReadFile(file)
	ok(t, err)
	if got := hex.Dump(b); got != string(want) {
		t.Errorf("the bytes differ from %s:\n%s", file, got)
	}
	if gone := v.missing(map[uint32]bool{2: true, 6: true, 7: true, 11: true}, 11); !slices.Equal(gone, []string{segmentName(5), segmentName(10)}) {
		t.Errorf("missing are %q", gone)
	}
	for i := range b {
		b[i] ^= 1
		if v, ok := parseInventory(b); ok {
			t.Errorf("byte %d is damaged, read is %+v", i, v)
		}
		b[i] ^= 1
	}
}

func FuzzInventory(f *testing.F) {
	v := inventory{secret: goldenSecret, upTo: 9, there: []span{{2, 3}, {5, 8}}}
	f.Add(v.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseInventory(b); ok && string(v.encode()) != string(b) {
			t.Errorf("%x is read and not written so", b)
		}
	})
}
