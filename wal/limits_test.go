package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

func TestConfigValidate(t *testing.T) {
	ok(t, Config{}.Validate())
	err := Config{SegmentBytes: 100, MaxPendingBytes: -1, BudgetBytes: -1, LowBytes: 10, FloorBytes: 20}.Validate()
	for _, name := range []string{"SegmentBytes is 100", "MaxPendingBytes is -1", "BudgetBytes is -1", "FloorBytes 20 is above LowBytes 10"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is missing in %v", name, err)
		}
	}
}

// What cannot be stored is refused before anything is, and does the log no harm.
func TestRefusedInput(t *testing.T) {
	l := open(t, vfs.NewMem(), testConfig())
	g := groupOf(t, l, 1)
	stored(t, g, entries(1, 1, 10, 50))
	ok(t, errors.Join(g.DeleteRange(1, 4), g.Sync()))
	before := look(t, g)
	for name, err := range map[string]error{
		"index 0":                g.StoreLogs(entries(0, 1, 1, 50)),
		"entry 13 follows":       g.StoreLogs(append(entries(11, 1, 1, 50), entries(13, 1, 1, 50)...)),
		"below the log 5..10":    g.StoreLogs(entries(3, 1, 1, 50)),
		"in the middle":          g.DeleteRange(6, 8),
		"65536 bytes of exten":   g.StoreLog(&raft.Log{Index: 11, Extensions: make([]byte, 1<<16)}),
		"entry 0":                g.StoreRetained([]*raft.Log{{}}),
		`"Other" is not one`:     g.SetUint64([]byte("Other"), 1),
		`"Another" is not one`:   g.Set([]byte("Another"), nil),
		"candidate has 70000 by": g.Set([]byte(keyVoteFor), make([]byte, 70000)),
	} {
		if name == "entry 0" {
			name = "index 0"
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := look(t, g); got != before {
		t.Errorf("got  %s\nwant %s", got, before)
	}
	stored(t, g, entries(11, 1, 1, 50))
}

// A full disk fails the log, and after a start with space everything acknowledged is
// there. Before that, pressure is reported and taken back.
func TestDiskFull(t *testing.T) {
	d := vfs.NewMem()
	c := testConfig()
	c.LowBytes, c.FloorBytes = 40000, 10000
	notified := make(chan Pressure, 10)
	c.OnPressure = func(p Pressure) { notified <- p }
	d.SetCapacity(60000)
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	next := uint64(1)
	var err error
	for ; err == nil; next++ {
		if err = g.StoreLogs(entries(next, 1, 1, 500)); err == nil {
			err = g.Sync()
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(l.Failed(), syscall.ENOSPC) {
		t.Fatalf("error is %v", err)
	}
	if low, floor := <-notified, <-notified; low != PressureLow || floor != PressureFloor {
		t.Errorf("notified %s, %s", low, floor)
	}
	_ = l.Close() // it has failed
	d.SetCapacity(1 << 20)
	l = open(t, d, c)
	// The entry that was not acknowledged may be there or not.
	if last, _ := groupOf(t, l, 1).LastIndex(); last != next-2 && last != next-1 {
		t.Errorf("last index is %d instead of %d", last, next-2)
	}
	if p := l.Space().Pressure; p != PressureNone {
		t.Errorf("pressure is %s", p)
	}
}

func TestPressureDoesNotFlutter(t *testing.T) {
	s := Space{Low: 100, Floor: 20}
	for _, step := range []struct {
		free uint64
		want Pressure
	}{
		{200, PressureNone},
		{99, PressureLow},
		{110, PressureLow}, // until a quarter above
		{125, PressureNone},
		{100, PressureNone},
		{19, PressureFloor},
		{24, PressureFloor},
		{25, PressureLow},
		{124, PressureLow},
		{1000, PressureNone},
	} {
		if s.judge(step.free); s.Pressure != step.want {
			t.Errorf("%d bytes free: %s instead of %s", step.free, s.Pressure, step.want)
		}
	}
	off := Space{Low: -1, Floor: -1}
	if off.judge(0); off.Pressure != PressureNone {
		t.Errorf("switched off: %s", off.Pressure)
	}
}

// Limits that nobody has set suit a small disk too.
func TestPressureLimits(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		low, floor         int64
		total              uint64
		wantLow, wantFloor int64
	}{
		{0, 0, 500 * gib, gib, gib / 4},
		{0, 0, 10 * gib, 10 * gib / 20, 10 * gib / 80},
		{0, 0, 2 * gib, gib / 8, gib / 32},
		{0, 0, gib / 4, gib / 16, gib / 64},
		{5 * gib, 0, 500 * gib, 5 * gib, gib / 4},
		{1000, 0, 500 * gib, 1000, 1000},
		{0, 100, 500 * gib, gib, 100},
		{-1, 100, 500 * gib, -1, 100},
		{-1, -1, 500 * gib, -1, -1},
	} {
		config := Config{LowBytes: c.low, FloorBytes: c.floor}
		if low, floor := config.limits(c.total); low != c.wantLow || floor != c.wantFloor {
			t.Errorf("%+v: %d and %d", c, low, floor)
		}
	}
}

// Space that comes back is noticed without any write.
func TestPressureRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := vfs.NewMem()
		d.SetCapacity(1000)
		c := testConfig()
		c.LowBytes, c.SpaceInterval = 2000, time.Second
		l, err := Open(d, c)
		ok(t, err)
		if p := l.Space().Pressure; p != PressureLow {
			t.Errorf("pressure is %s", p)
		}
		d.SetCapacity(10000)
		time.Sleep(time.Second)
		synctest.Wait()
		if p := l.Space().Pressure; p != PressureNone {
			t.Errorf("pressure is %s", p)
		}
		ok(t, l.Close())
	})
}

// What the writer writes while nothing comes may hang as well: what is appended then waits
// for that, and it shows in Stalled.
func TestHangingMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := vfs.NewMem()
		l := open(t, d, testConfig())
		g := groupOf(t, l, 1)
		stored(t, g, entries(1, 1, 1, 100))
		hung, release := d.HangAt(vfs.OpWrite, 1)
		<-hung
		ok(t, g.StoreLogs(entries(2, 1, 1, 100)))
		time.Sleep(time.Second)
		if age, _ := l.Stalled(); age < time.Second {
			t.Errorf("stalled for %v after a second", age)
		}
		release()
		ok(t, g.Sync())
		if age, _ := l.Stalled(); age != 0 {
			t.Errorf("stalled for %v although the disk is back", age)
		}
		ok(t, l.Close())
	})
}

// A disk that hangs shows in Stalled; appends go on up to MaxPendingBytes and then wait;
// callbacks and synchronous callers are answered when it is back.
func TestHangingDisk(t *testing.T) {
	d := vfs.NewMem()
	c := testConfig()
	c.MaxPendingBytes = 3000
	l := open(t, d, c)
	g, h := groupOf(t, l, 1), groupOf(t, l, 2)
	stored(t, g, entries(1, 1, 1, 100))
	if age, limit := l.Stalled(); age != 0 || limit != LeastStall {
		t.Errorf("stalled for %v of %v although nothing is written", age, limit)
	}
	hung, release := d.HangAt(vfs.OpSync, 1)
	ok(t, g.StoreLogs(entries(2, 1, 1, 100)))
	<-hung
	for age := time.Duration(0); age == 0; age, _ = l.Stalled() {
		runtime.Gosched() // the clock has to move
	}
	at := g.Appended()
	if g.Durable() >= at {
		t.Error("durable although the disk hangs")
	}
	type call struct {
		durable Position
		err     error
	}
	calls := make(chan call, 100)
	g.Notify(func(p Position, err error) { calls <- call{p, err} })
	var e raft.Log
	ok(t, g.GetLog(2, &e)) // from memory
	next := uint64(3)
	for l.Stats().PendingBytes < c.MaxPendingBytes {
		ok(t, g.StoreLogs(entries(next, 1, 1, 100)))
		next++
	}
	if n := l.Stats().PendingBytes; n > c.MaxPendingBytes+200 {
		t.Errorf("%d bytes are pending", n)
	}
	var blocked sync.WaitGroup
	var errs [2]error
	blocked.Go(func() { errs[0] = g.StoreLogs(entries(next, 1, 1, 100)) })
	blocked.Go(func() { errs[1] = h.Set([]byte(keyVoteFor), []byte("n3")) })
	if len(calls) > 0 {
		t.Error("called although the disk hangs")
	}
	release()
	for notified := (call{}); notified.durable < at; { // however many batches it takes
		notified = <-calls
		ok(t, notified.err)
	}
	blocked.Wait()
	ok(t, errors.Join(errs[:]...))
	ok(t, g.Sync())
	if g.Durable() < g.Appended() {
		t.Error("not durable although the disk is back")
	}
}

// Whoever asks for it is notified of each batch with records of the group, of no other group's,
// and of nothing any more after Close.
func TestNotifyIsOfTheGroup(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g, h := groupOf(t, l, 1), groupOf(t, l, 2)
	var calls []Position
	var mu sync.Mutex
	g.Notify(func(p Position, err error) {
		ok(t, err)
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, p)
	})
	notified := func() []Position {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
	ok(t, g.StoreLogs(entries(1, 1, 1, 100)))
	at := g.Appended()
	for len(notified()) == 0 {
		runtime.Gosched()
	}
	ok(t, h.StoreLogs(entries(1, 1, 1, 100)))
	ok(t, h.Sync())
	ok(t, h.Set([]byte(keyVoteFor), []byte("n1"))) // behind the call for the batch before
	if got := notified(); len(got) != 1 || got[0] < at {
		t.Errorf("notified of %v, the group's record ends at %d", got, at)
	}
	ok(t, g.Close())
	ok(t, g.StoreLogs(entries(2, 1, 1, 100)))
	ok(t, h.Set([]byte(keyVoteFor), []byte("n2")))
	ok(t, h.Set([]byte(keyVoteFor), []byte("n3")))
	if got := notified(); len(got) != 1 {
		t.Errorf("notified of %v although the group is closed", got)
	}
}

// Who waits when the log fails gets the error, in every way of waiting.
func TestFailureReachesAllWhoWait(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g, h := groupOf(t, l, 1), groupOf(t, l, 2)
	stored(t, g, entries(1, 1, 1, 100))
	broken := errors.New("broken")
	hung, release := d.HangAt(vfs.OpWrite, 1)
	d.FailAt(vfs.OpSync, 1, broken)
	ok(t, g.StoreLogs(entries(2, 1, 1, 100)))
	<-hung
	ok(t, g.StoreLogs(entries(3, 1, 1, 100)))
	calls := make(chan error, 2)
	g.Notify(func(_ Position, err error) { calls <- err })
	done := make(chan error, 2)
	go func() { done <- g.Sync() }()
	go func() { done <- h.Set([]byte(keyVoteFor), []byte("n3")) }()
	release()
	for range cap(done) {
		if err := <-done; !errors.Is(err, broken) {
			t.Errorf("who waits: %v", err)
		}
	}
	if err := <-calls; !errors.Is(err, broken) {
		t.Errorf("who is to be notified: %v", err)
	}
	if err := g.Sync(); !errors.Is(err, broken) {
		t.Errorf("who comes late: %v", err)
	}
	if g.Durable() >= g.Appended() {
		t.Error("durable")
	}
}

// Recent entries come from memory, within the budget; the oldest go first.
func TestTailBudget(t *testing.T) {
	d := vfs.NewMem()
	c := testConfig()
	c.SegmentBytes, c.TailBytes = 1<<20, 100*(100+entryOverheadBytes)
	l := open(t, d, c)
	for i := uint64(1); i <= 100; i++ {
		for group := id.GroupID(1); group <= 4; group++ {
			stored(t, groupOf(t, l, group), entries(i, 1, 1, 100))
		}
	}
	if n := l.Stats().TailBytes; n > c.TailBytes {
		t.Errorf("%d bytes in memory, allowed are %d", n, c.TailBytes)
	}
	before := d.Count(vfs.OpRead)
	var e raft.Log
	for group := id.GroupID(1); group <= 4; group++ {
		for i := uint64(76); i <= 100; i++ {
			ok(t, groupOf(t, l, group).GetLog(i, &e))
		}
	}
	if n := d.Count(vfs.OpRead); n != before {
		t.Errorf("%d reads for recent entries", n-before)
	}
	ok(t, groupOf(t, l, 1).GetLog(75, &e))
	if d.Count(vfs.OpRead) == before {
		t.Error("the budget is exceeded")
	}
	ok(t, groupOf(t, l, 1).Close())
	ok(t, groupOf(t, l, 1).GetLog(100, &e))
	if string(e.Data) != content(100, 1, 100) {
		t.Error("wrong entry after Close")
	}
}

// The log stays within its bound although single old entries live on (RE-8), while
// readers are at work.
func TestDiskIsBounded(t *testing.T) {
	d := vfs.NewMem()
	c := testConfig()
	c.SegmentBytes, c.manual = 64<<10, false
	l := open(t, d, c)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(3, 3))
			var e raft.Log
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := 1 + uint64(r.IntN(20000))
				if err := groupOf(t, l, id.GroupID(1+i%3)).Entry(i, &e); err == nil && e.Index != i || err != nil && !errors.Is(err, raft.ErrLogNotFound) {
					t.Errorf("entry %d is %d: %v", i, e.Index, err)
				}
			}
		})
	}
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	var live [3][]uint64
	next := uint64(1)
	for range rounds {
		for k := range live {
			g := groupOf(t, l, id.GroupID(1+k))
			for b := next; b < next+200; b += 20 {
				ok(t, g.StoreLogs(entries(b, 1, 20, 200)))
			}
			live[k] = append(live[k], next+7) // it stays for good
			ok(t, g.DeleteRange(1, next+150))
			ok(t, g.Retain(^uint64(0), singles(slices.Values(live[k]))))
		}
		next += 200
	}
	close(stop)
	readers.Wait()
	ok(t, groupOf(t, l, 3).Sync())
	// The housekeeper alone tidies: a second one beside it would keep a spare of its own.
	bounded := func(s Stats) bool {
		return s.DiskBytes <= 3*s.LiveBytes+2*c.SegmentBytes && uint64(s.DiskBytes) <= d.Used()+uint64(c.SegmentBytes)
	}
	s := l.Stats()
	for deadline := time.Now().Add(time.Minute); !bounded(s); s = l.Stats() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes on disk (files: %d), %d are live, a segment has %d", s.DiskBytes, d.Used(), s.LiveBytes, c.SegmentBytes)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if s.Carried == 0 || s.Spares > 1 {
		t.Errorf("nothing was compacted, or too much is spared: %+v", s)
	}
	t.Logf("appended %d, carried %d, live %d, disk %d", s.Appended, s.Carried, s.LiveBytes, s.DiskBytes)
	for k := range live {
		for _, i := range live[k] {
			var e raft.Log
			ok(t, groupOf(t, l, id.GroupID(1+k)).Entry(i, &e))
		}
	}
}

// A segment is not taken from under a reader.
func TestReaderHoldsSegment(t *testing.T) {
	d := vfs.NewMem()
	c := testConfig()
	c.TailBytes = -1
	l := open(t, d, c)
	g := groupOf(t, l, 1)
	stored(t, g, entries(1, 1, 30, 200))
	at := g.ix.get(1)
	l.mu.Lock()
	for !l.bySeq[at.seg].closed { // the roller may not have sealed it yet
		l.rolling.Wait()
	}
	l.mu.Unlock()
	hung, release := d.HangAt(vfs.OpRead, 1)
	read := make(chan error)
	go func() {
		var e raft.Log
		err := g.Entry(1, &e)
		if err == nil && string(e.Data) != content(1, 1, 200) {
			err = fmt.Errorf("it is %q", e.Data)
		}
		read <- err
	}()
	<-hung
	l.mu.Lock() // what DeleteRange, Retain and compaction would do, without the disk that hangs
	s := l.bySeq[at.seg]
	g.ix.remove(span{1, 1000}, always, l.drop)
	g.putState(CauseCarry)
	l.durable.Store(uint64(l.appended))
	if next := l.nextDead(); s.live != 0 || s.refs != 1 || next == s {
		t.Errorf("segment with %d live bytes and %d readers is freed", s.live, s.refs)
	}
	l.mu.Unlock()
	release()
	ok(t, <-read)
	l.mu.Lock()
	if l.nextDead() != s {
		t.Error("segment without readers is not freed")
	}
	l.mu.Unlock()
}

// Restarts do not pile up short segments.
func TestManyRestarts(t *testing.T) {
	d := vfs.NewMem()
	for i := range uint64(60) {
		l := open(t, d, testConfig())
		stored(t, groupOf(t, l, 1), entries(1+i, 1, 1, 100))
		rollerIdle(l)
		ok(t, l.tidy())
		if n := l.Stats().Segments; n > smallSegments+8 {
			t.Fatalf("%d segments after %d restarts", n, i)
		}
		ok(t, l.Close())
	}
}

// Writes that change nothing reach no disk: raft repeats the term at each start.
func TestNoChangeIsNotWritten(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	g := groupOf(t, l, 1)
	again := func() {
		ok(t, g.SetUint64([]byte(keyTerm), 4))
		ok(t, g.SetUint64([]byte(keyVoteTerm), 4))
		ok(t, g.Set([]byte(keyVoteFor), []byte("n2")))
		ok(t, g.DeleteRange(1, 3))
		ok(t, errors.Join(g.Retain(^uint64(0), singles(slices.Values([]uint64{2, 3}))), g.Sync()))
	}
	stored(t, g, entries(1, 4, 5, 50))
	again()
	before := d.Count(vfs.OpWrite)
	again()
	if n := d.Count(vfs.OpWrite); n != before {
		t.Errorf("%d writes", n-before)
	}
}

// A term is stored without waiting for the disk; a vote waits, and the term that came
// before it is as safe as the vote.
func TestTermWaitsWithTheVote(t *testing.T) {
	for loss := range vfs.Losses {
		d := vfs.NewMem()
		l := open(t, d, testConfig())
		g := groupOf(t, l, 1)
		stored(t, g, entries(1, 1, 1, 100))
		hung, release := d.HangAt(vfs.OpSync, 1)
		ok(t, g.SetUint64([]byte(keyTerm), 5)) // returns, or the test ends here
		<-hung
		if g.Durable() >= g.Appended() {
			t.Error("durable although the disk hangs")
		}
		release()
		ok(t, g.SetUint64([]byte(keyVoteTerm), 5))
		ok(t, g.Set([]byte(keyVoteFor), []byte("n2")))
		next := d.Crash(loss, rand.New(rand.NewPCG(1, uint64(loss))))
		_ = l.Close() // its disk is off
		l = open(t, next, testConfig())
		g = groupOf(t, l, 1)
		term, err := g.GetUint64([]byte(keyTerm))
		ok(t, err)
		voted, err := g.Get([]byte(keyVoteFor))
		ok(t, err)
		if term != 5 || string(voted) != "n2" {
			t.Errorf("loss %d: term %d, vote for %q", loss, term, voted)
		}
		ok(t, l.Close())
	}
}

// A smaller limit lets go of recent entries at once, and holds for those that come.
func TestLimitTail(t *testing.T) {
	c := testConfig()
	c.TailBytes = 1 << 20
	l := open(t, vfs.NewMem(), c)
	g := groupOf(t, l, 1)
	stored(t, g, entries(1, 1, 30, 200))
	const limit = 5 * (200 + entryOverheadBytes)
	l.LimitTail(limit)
	check := func(first uint64) {
		t.Helper()
		if s := l.Stats(); s.TailBytes > limit || s.TailLimit != limit || g.tail.logs[0].Index < first {
			t.Errorf("%d bytes of %d, from entry %d on", s.TailBytes, s.TailLimit, g.tail.logs[0].Index)
		}
	}
	check(26)
	stored(t, g, entries(31, 1, 10, 200))
	check(36)
	var e raft.Log
	ok(t, g.GetLog(1, &e)) // from disk
}
