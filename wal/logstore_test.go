package wal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal/vfs"
)

// script goes through everything that a member does, in the order in which raft does it.
func script() []op {
	return []op{
		term(1), vote(1, "n1"), store(1, 1, 3, 60), store(4, 1, 5, 300), term(1), vote(1, "n1"),
		term(2), store(9, 2, 1, 5000), // larger than a segment
		store(10, 2, 20, 200),
		remove(20, 29), store(20, 3, 4, 150), // a conflict
		remove(20, 40), remove(24, 30), // half of it again, then nothing
		store(20, 4, 6, 100),
		remove(1, 12), retain(2, 5, 6, 9, 30), tidy(),
		store(26, 4, 10, 250), remove(13, 30), retain(5, 9, 14, 22, 23), tidy(),
		vote(5, "n3"), store(36, 5, 10, 200), remove(1, 44), retain(9, 23), retain(9, 23), tidy(),
		// A snapshot from the leader replaces the log; its own conflicts at 23.
		bring(6, 100, 9, 23, 50, 51, 52, 70), remove(45, 45), store(80, 6, 5, 100),
		retain(9, 23, 50, 52, 70), tidy(),
		store(85, 6, 20, 200), remove(80, 90), retain(23, 52, 85, 86), tidy(),
		// A suffix goes and the next snapshot jumps over where it was.
		remove(100, 104), bring(7, 90, 101), store(120, 7, 5, 100), retain(23, 86, 99, 101), tidy(),
		// Only one that empties its log may begin lower.
		remove(120, 124), store(110, 8, 3, 100), tidy(), retain(23, 101), tidy(),
		deleteGroup(), tidy(), store(1, 9, 3, 100), tidy(), bring(9, 50, 2), remove(1, 2), retain(2), tidy(),
		store(4, 9, 30, 300), remove(1, 30), retain(), tidy(), store(34, 9, 30, 300), tidy(),
		deleteGroup(), term(10), store(5, 10, 2, 100), tidy(),
		// What a deleted incarnation left must not come back in the next.
		bring(10, 50, 3), deleteGroup(), store(1, 11, 6, 100), remove(1, 5), tidy(),
		// One snapshot breaks off, and one comes while the last one's garbage goes.
		bring(12, 100, 4, 6, 9, 30), dropBrought(3), tidy(), bring(12, 100, 6, 9, 30), retainUpTo(4, 4), tidy(),
		remove(6, 6), store(31, 12, 3, 100), retain(4, 6, 30), dropBrought(6), tidy(),
	}
}

// A group that is created has a record at once, and only one.
func TestCreate(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g := groupOf(t, l, 7)
	if l.Has(7) {
		t.Fatal("it has a record before")
	}
	ok(t, g.Create())
	if at := g.Appended(); at == 0 || at > l.Durable() {
		t.Errorf("it ends at %d, durable is %d", at, l.Durable())
	}
	before := l.Stats()
	ok(t, g.Create())
	if l.Stats().Syncs != before.Syncs {
		t.Error("it was created again")
	}
	d = d.Crash(vfs.LoseAll, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	l = open(t, d, testConfig())
	if last, err := groupOf(t, l, 7).LastIndex(); !l.Has(7) || last != 0 || err != nil {
		t.Errorf("after a power cut: has %v, last %d, %v", l.Has(7), last, err)
	}
}

func dirs(t *testing.T) map[string]func() vfs.Dir {
	return map[string]func() vfs.Dir{
		"memory": func() vfs.Dir { return vfs.NewMem() },
		"files": func() vfs.Dir {
			d, err := vfs.OS(t.TempDir())
			ok(t, err)
			return d
		},
	}
}

// The log does what raft.LogStore, raft.StableStore and the storage of raftfsm promise,
// and is the same after it was opened again, after every step.
func TestScript(t *testing.T) {
	for name, dir := range dirs(t) {
		for _, reopen := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				d := dir()
				l := open(t, d, testConfig())
				m := newModel()
				for _, o := range script() {
					if err := o.run(l, groupOf(t, l, 7)); err != nil {
						t.Fatalf("%s: %v", o.name, err)
					}
					steps := o.steps(m)
					m = steps[len(steps)-1]
					if got, want := look(t, groupOf(t, l, 7)), m.String(); got != want {
						t.Fatalf("%s:\ngot  %s\nwant %s", o.name, got, want)
					}
					if reopen {
						ok(t, l.Close())
						l = open(t, d, testConfig())
						if got, want := look(t, groupOf(t, l, 7)), m.String(); got != want {
							t.Fatalf("%s, opened again:\ngot  %s\nwant %s", o.name, got, want)
						}
					}
				}
				ok(t, l.Close())
			})
		}
	}
}

// A group that was deleted stays so although older segments still hold its records and
// the one that says so is compacted; once they are gone, so is that.
func TestDeletedStaysDeleted(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	other := groupOf(t, l, 1)
	for i := uint64(1); i <= 20; i++ {
		stored(t, other, entries(i, 1, 1, 150))
		stored(t, groupOf(t, l, 2), entries(i, 1, 1, 20))
	}
	first := l.segs[0]
	ok(t, l.Delete(2))
	ok(t, l.Delete(2))
	for i := uint64(21); l.head.seq == l.deleted[2].seg; i++ {
		stored(t, other, entries(i, 1, 1, 150))
	}
	ok(t, other.Sync())
	was := l.deleted[2]
	rollerIdle(l)
	ok(t, l.carry([]*segment{l.bySeq[was.seg]}))
	if l.deleted[2] == was || l.segs[0] != first {
		t.Fatal("the record was not carried")
	}
	rollerIdle(l)
	ok(t, l.tidy())
	ok(t, l.Close())
	l = open(t, d, testConfig())
	if groups := l.Groups(); len(groups) != 1 || groups[0] != 1 {
		t.Errorf("groups are %v", groups)
	}
	for len(l.deleted) > 0 {
		rollerIdle(l)
		ok(t, l.carry([]*segment{l.segs[0]})) // the oldest, again and again
		rollerIdle(l)
		ok(t, l.tidy())
	}
	ok(t, l.Close())
	l = open(t, d, testConfig())
	if groups := l.Groups(); len(groups) != 1 || len(l.deleted) != 0 {
		t.Errorf("groups are %v, deleted %v", groups, l.deleted)
	}
}

// What keeps the past of a deleted group away passes on to the group that comes after it:
// the record that says "deleted" may go before what it speaks of.
func TestPastOfAGroupStaysAway(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	other := groupOf(t, l, 1)
	fill := func() {
		seq := l.head.seq
		for l.head.seq == seq {
			stored(t, other, entries(other.st.next, 1, 1, 150))
		}
	}
	ok(t, groupOf(t, l, 2).StoreRetained(entries(3, 1, 1, 50)))
	fill()
	ok(t, l.Delete(2))
	was := l.deleted[2]
	stored(t, groupOf(t, l, 2), entries(1, 2, 6, 50))
	ok(t, errors.Join(groupOf(t, l, 2).DeleteRange(1, 5), groupOf(t, l, 2).Sync()))
	fill()
	ok(t, other.Sync())
	want := look(t, groupOf(t, l, 2))
	rollerIdle(l)
	ok(t, l.carry([]*segment{l.bySeq[was.seg]}))
	rollerIdle(l)
	ok(t, l.tidy())
	if l.bySeq[was.seg] != nil || l.segs[0].seq != 1 {
		t.Fatal("the record is still there")
	}
	ok(t, l.Close())
	l = open(t, d, testConfig())
	if got := look(t, groupOf(t, l, 2)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A crash may cut off all of a group that has come back but its first record.
func TestCutOffAfterComingBack(t *testing.T) {
	const seq = 3
	salt := saltOf(seq, goldenSecret)
	st := state{first: 1, next: 1, term: 7}
	old := entryRecord(KindRetained, 1, &raft.Log{Index: 2})
	b := header(seq, goldenSecret)
	b = old.appendTo(b, salt)
	gone, back := record{kind: KindDeleted, group: 1}, st.record(1, CauseCreate)
	b = back.appendTo(gone.appendTo(b, salt), salt)
	d := vfs.NewMem()
	f, err := d.Create(segmentName(seq))
	ok(t, err)
	_, err = f.WriteAt(b, 0)
	ok(t, err)
	l := open(t, d, testConfig())
	if g := groupOf(t, l, 1); len(l.deleted) > 0 || len(g.keeps) != 1 || g.st.term != 7 || len(g.rt.chunks) > 0 {
		t.Errorf("deleted %v, keeps %v, state %+v", l.deleted, g.keeps, g.st)
	}
}

// A recycled file ends with the seal, so that the next start finds it without a scan.
func TestSealEndsTheFile(t *testing.T) {
	d := vfs.NewMem()
	c := testConfig()
	c.Spares = 4
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	recycled := 0
	for i := uint64(1); i < 100; i++ {
		stored(t, g, entries(i, 1, 1, 100+int(i*37)%700))
		if i > 20 {
			ok(t, errors.Join(g.DeleteRange(1, i-20), g.Sync()))
		}
		before := l.Stats().Spares
		ok(t, errors.Join(g.Retain(^uint64(0), func(func(uint64, uint64) bool) {}), g.Sync()))
		rollerIdle(l)
		ok(t, l.tidy())
		recycled += max(0, l.Stats().Spares-before)
		for _, s := range l.segs {
			if !s.closed {
				continue
			}
			size, err := s.file.Size()
			ok(t, err)
			if footer, err := readFooter(s); err != nil || footer == nil || size != s.size {
				t.Fatalf("segment of %d bytes, sealed at %d: %v", size, s.size, err)
			}
		}
	}
	if recycled == 0 {
		t.Error("no file was used again")
	}
	ok(t, l.Close())
	// Numbers of segments may be given out again by a new process, spares must not stay.
	ok(t, open(t, d, c).Close())
	names, err := d.List()
	ok(t, err)
	if slices.ContainsFunc(names, func(name string) bool { return name != inventoryName && strings.HasPrefix(name, sparePrefix) }) {
		t.Errorf("files are %v", names)
	}
}
