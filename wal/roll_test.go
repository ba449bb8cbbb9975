package wal

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal/vfs"
)

func last(steps []model) model { return steps[len(steps)-1] }

// rollerIdle waits until the roller has nothing to do.
func rollerIdle(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && (l.sealing != nil || l.ahead != nil && l.ahead.file == nil) {
		l.rolling.Wait()
	}
}

// heldSeals is a directory whose files are not cut off, and so not sealed, until they may be.
type heldSeals struct {
	*vfs.Mem
	may chan struct{}
}

type heldFile struct {
	vfs.File
	may chan struct{}
}

func (d heldSeals) Create(name string) (vfs.File, error) {
	f, err := d.Mem.Create(name)
	return heldFile{f, d.may}, err
}

func (d heldSeals) Open(name string) (vfs.File, error) {
	f, err := d.Mem.Open(name)
	return heldFile{f, d.may}, err
}

func (f heldFile) Truncate(size int64) error {
	<-f.may
	return f.File.Truncate(size)
}

// unsealed appends until there are records behind a segment that is full and not sealed, and
// returns what a power cut leaves then, with the model of group 7.
func unsealed(t *testing.T, loss vfs.Loss) (*vfs.Mem, model) {
	t.Helper()
	d := heldSeals{vfs.NewMem(), make(chan struct{})}
	l, err := Open(d, testConfig())
	ok(t, err)
	g := groupOf(t, l, 7)
	m := newModel()
	for i := uint64(1); len(m.log) == 0 || g.ix.get(i-1).seg < 2 || g.ix.get(i-1).off == headerBytes; i++ {
		o := store(i, 1, 1, 300)
		ok(t, durably(o, l, g)) // it does not wait for the seal
		m = last(o.steps(m))
	}
	crashed := d.Crash(loss, rand.New(rand.NewPCG(1, uint64(loss))))
	close(d.may)
	_ = l.Close() // its disk is off
	return crashed, m
}

// What is acknowledged behind a segment that is not sealed yet survives, whether the seal
// succeeded or not; so it does after the start that makes the seal again.
func TestSealsHoldUpNothing(t *testing.T) {
	for loss := range vfs.Losses {
		d, m := unsealed(t, loss)
		recovered(t, d, rand.New(rand.NewPCG(2, uint64(loss))), []string{m.String()}, fmt.Sprintf("loss %d", loss))
	}
}

// The first record of a segment says where the one before ends: damage to the end of that is
// distinguished from a torn write, although it is not sealed.
func TestDamageBeforeTheSeal(t *testing.T) {
	d, _ := unsealed(t, vfs.LoseAll)
	l := open(t, d, testConfig())
	end := l.bySeq[1].end
	var at loc // of the last record of the segment
	g7 := groupOf(t, l, 7)
	var index uint64
	g7.ix.all(span{1, maxIndex}, func(i uint64, o loc) bool {
		if o.seg == 1 {
			at, index = o, i
		}
		return true
	})
	if int64(at.off+at.size) >= end { // behind it is a list
		t.Fatalf("the last record of the segment is %+v, its end %d", at, end)
	}
	last, err := g7.LastIndex()
	ok(t, err)
	ok(t, l.Close())

	d, _ = unsealed(t, vfs.LoseAll)
	d.Flip(segmentName(1), int64(at.off)+HeadBytes)
	l = open(t, d, testConfig())
	if got, err := groupOf(t, l, 7).LastIndex(); err != nil || got != last {
		t.Errorf("the last entry is %d, not %d, %v", got, last, err)
	}
	var e raft.Log
	err = groupOf(t, l, 7).GetLog(index, &e)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("corrupt at offset %d", at.off)) {
		t.Errorf("error is %v", err)
	}
}

// A file that was made ahead and not used leaves nothing behind an orderly end; after a power
// cut the next start takes it for a segment without records.
func TestMadeAhead(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g := groupOf(t, l, 7)
	m := newModel()
	for i := uint64(1); len(m.log) == 0 || l.Stats().DiskBytes == l.segs[0].bytes(); i++ {
		o := store(i, 1, 1, 300)
		ok(t, durably(o, l, g))
		m = last(o.steps(m))
		rollerIdle(l)
	}
	if s := l.Stats(); s.Segments != 1 {
		t.Fatalf("%+v", s)
	}
	crashed := d.Crash(vfs.LoseAll, rand.New(rand.NewPCG(1, 1)))
	_ = l.Close() // its disk is off
	names, err := Segments(crashed)
	if ok(t, err); len(names) != 2 {
		t.Fatalf("segments are %v", names)
	}
	l = open(t, crashed, testConfig())
	if got := look(t, groupOf(t, l, 7)); got != m.String() {
		t.Errorf("got  %s\nwant %s", got, m)
	}
	rollerIdle(l)
	ok(t, l.tidy())
	ok(t, l.Close())
	names, err = Segments(crashed)
	if ok(t, err); len(names) != 1 {
		t.Errorf("after an orderly end segments are %v", names)
	}
}
