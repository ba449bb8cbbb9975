package wal

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/quorate/quorate/wal/vfs"
)

const (
	reserveLow   = 400_000
	reserveFloor = 100_000
	reserveDisk  = 4_000_000
)

func reserveLog(t *testing.T, d vfs.Dir) *Log {
	t.Helper()
	c := testConfig()
	c.LowBytes, c.FloorBytes = reserveLow, reserveFloor
	return open(t, d, c)
}

// leave lets the disk have so many free bytes and has the log look.
func leave(l *Log, d *vfs.Mem, free uint64) Space {
	d.SetCapacity(d.Used() + free)
	l.checkSpace(0)
	return l.Space()
}

// At the floor the reserve is given up: room for what frees space. It is put by again as soon
// as there is room, and until then the disk counts as low. Only without it the floor is reported.
func TestReserve(t *testing.T) {
	d := vfs.NewMem()
	d.SetCapacity(reserveDisk)
	l := reserveLog(t, d)
	want := func(when string, s Space, p Pressure, reserve int64) {
		t.Helper()
		if s.Pressure != p || s.Reserve != reserve || s.Missing != reserveFloor-reserve {
			t.Errorf("%s: %+v, want %s with a reserve of %d", when, s, p, reserve)
		}
	}
	want("at first", l.Space(), PressureNone, reserveFloor)
	want("low", leave(l, d, reserveLow-1), PressureLow, reserveFloor)
	s := leave(l, d, reserveFloor-1)
	want("at the floor", s, PressureLow, 0)
	if s.Free != 2*reserveFloor-1 {
		t.Errorf("%d bytes are free", s.Free)
	}
	stored(t, groupOf(t, l, 1), entries(1, 1, 10, 500)) // what frees space can be written
	want("without it", leave(l, d, reserveFloor-1), PressureFloor, 0)
	want("between", leave(l, d, 2*reserveFloor), PressureLow, 0)
	want("above the low limit, but without a reserve", leave(l, d, reserveLow+reserveLow/4+reserveFloor-1), PressureLow, 0)
	want("room again", leave(l, d, reserveLow+reserveLow/4+reserveFloor), PressureNone, reserveFloor)

	ok(t, l.Close())
	used := d.Used()
	l = reserveLog(t, d)
	want("after a start", l.Space(), PressureNone, reserveFloor)
	if d.Used() > used+5000 {
		t.Errorf("%d bytes are used, before the start %d", d.Used(), used)
	}
}

// What is about to be written counts before it is.
func TestReserveIsGivenUpBeforeAWrite(t *testing.T) {
	d := vfs.NewMem()
	d.SetCapacity(reserveDisk)
	l := reserveLog(t, d)
	leave(l, d, reserveFloor+50_000)
	stored(t, groupOf(t, l, 1), entries(1, 1, 1, 140_000))
	if s := l.Space(); s.Reserve != 0 {
		t.Errorf("%+v", s)
	}
}

// A node whose disk has not even room to start lets go of the reserve.
func TestGiveUpReserve(t *testing.T) {
	d := vfs.NewMem()
	ok(t, GiveUpReserve(d, reserveLow)) // there is none yet
	d.SetCapacity(reserveDisk)
	l := reserveLog(t, d)
	ok(t, l.Close())
	ok(t, GiveUpReserve(d, reserveLow))
	if _, err := d.Open(reserveName); err != nil {
		t.Errorf("there was room enough: %v", err)
	}
	d.SetCapacity(d.Used())
	ok(t, GiveUpReserve(d, 1))
	if _, err := d.Open(reserveName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening the reserve: %v", err)
	}
}

// Where room cannot be put by, the log does without, and no more has to be free for it.
func TestNoReserve(t *testing.T) {
	d := vfs.NewMem()
	d.SetCapacity(reserveDisk)
	l := reserveLog(t, unallocated{d})
	if s := l.Space(); s.Pressure != PressureNone || s.Reserve != 0 || s.Missing != 0 {
		t.Errorf("%+v", s)
	}
	if s := leave(l, d, reserveFloor-1); s.Pressure != PressureFloor {
		t.Errorf("%+v", s)
	}
}

// unallocated is a file system that cannot put room by.
type unallocated struct{ *vfs.Mem }

func (u unallocated) Create(name string) (vfs.File, error) {
	f, err := u.Mem.Create(name)
	return unallocatedFile{f}, err
}

type unallocatedFile struct{ vfs.File }

func (unallocatedFile) Allocate(int64) error { return errors.ErrUnsupported }

// While space is scarce segments that are half full are carried although the log is small,
// spares are removed, and nothing is carried for which there is no room.
func TestCompactsWhileSpaceIsScarce(t *testing.T) {
	d := vfs.NewMem()
	d.SetCapacity(reserveDisk)
	c := testConfig()
	c.LowBytes, c.FloorBytes, c.manual = reserveLow, reserveFloor, true
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	// Six segments with one live entry of four in each.
	n := uint64(c.SegmentBytes/1000) * 6
	var live []uint64
	for i := uint64(1); i <= n; i++ {
		stored(t, g, entries(i, 1, 1, 900))
		if i%4 == 0 {
			live = append(live, i)
		}
	}
	ok(t, g.DeleteRange(1, n))
	ok(t, g.Retain(n, func(yield func(first, last uint64) bool) {
		for _, i := range live {
			if !yield(i, i) {
				return
			}
		}
	}))
	ok(t, g.Sync())
	before := l.Stats()
	leave(l, d, reserveFloor/2-1)
	if p := l.Space().Pressure; p != PressureLow { // the reserve is given up
		t.Fatalf("pressure %s", p)
	}
	ok(t, l.tidy())
	after := l.Stats()
	if after.DiskBytes > 2*after.LiveBytes+2*c.SegmentBytes || after.Spares > 0 {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
}

// Newest counts from an index down to the first of the log, and no more than was asked for.
func TestNewest(t *testing.T) {
	l := open(t, vfs.NewMem(), testConfig())
	g := groupOf(t, l, 1)
	if n, bytes := g.Newest(10, 1<<40); n != 0 || bytes != 0 {
		t.Errorf("an empty log: %d entries of %d bytes", n, bytes)
	}
	stored(t, g, entries(1, 1, 10, 100))
	ok(t, errors.Join(g.DeleteRange(1, 4), g.Sync()))
	_, one := g.Newest(10, HeadBytes+100+10)
	for _, x := range []struct {
		upTo    uint64
		most    int64
		entries uint64
	}{{10, 1 << 40, 6}, {99, 1 << 40, 6}, {8, 1 << 40, 4}, {4, 1 << 40, 0}, {10, 2*one + 1, 2}, {10, one - 1, 0}} {
		if n, bytes := g.Newest(x.upTo, x.most); n != x.entries || bytes != int64(n)*one {
			t.Errorf("up to %d, %d bytes: %d entries of %d bytes, want %d", x.upTo, x.most, n, bytes, x.entries)
		}
	}
}
