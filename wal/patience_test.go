package wal

import (
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/wal/vfs"
)

// scarce is a directory in which nothing can be opened because descriptors ran out.
type scarce struct {
	*vfs.Mem
	now *atomic.Bool
}

func (s scarce) fault(name string) error {
	if s.now.Load() {
		return &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return nil
}

func (s scarce) Create(name string) (vfs.File, error) {
	if err := s.fault(name); err != nil {
		return nil, err
	}
	return s.Mem.Create(name)
}

func (s scarce) Open(name string) (vfs.File, error) {
	if err := s.fault(name); err != nil {
		return nil, err
	}
	return s.Mem.Open(name)
}

func (s scarce) SyncDir() error {
	if err := s.fault("."); err != nil {
		return err
	}
	return s.Mem.SyncDir()
}

// Who stops a node does not wait for file descriptors: groups that wait for the log learn that it
// has failed.
func TestEndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := scarce{vfs.NewMem(), &atomic.Bool{}}
		l, err := Open(d, testConfig())
		ok(t, err)
		g := groupOf(t, l, 1)
		stored(t, g, entries(1, 1, 1, 100))
		d.now.Store(true)
		ok(t, g.StoreLogs(entries(2, 1, 40, 100))) // more than a segment
		synced := make(chan error, 1)
		go func() { synced <- g.Sync() }()
		time.Sleep(time.Minute)
		if len(synced) > 0 || !l.Short() {
			t.Fatalf("short: %v; synced", l.Short())
		}
		l.EndWaits()
		l.EndWaits()
		if err := <-synced; !lacksDescriptor(err) {
			t.Errorf("synced: %v", err)
		}
		if err := l.Close(); err == nil {
			t.Error("the log was closed without what it had to write")
		}
	})
}

// A log that needs another file and gets no descriptor waits for one, reports that, and continues.
func TestDescriptorsRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := scarce{vfs.NewMem(), &atomic.Bool{}}
		l, err := Open(d, testConfig())
		ok(t, err)
		g := groupOf(t, l, 1)
		stored(t, g, entries(1, 1, 1, 100))
		for range 3 {
			d.now.Store(true)
			last, err := g.LastIndex()
			ok(t, err)
			ok(t, g.StoreLogs(entries(last+1, 1, 40, 100))) // more than a segment
			time.Sleep(time.Minute)
			if err := l.Failed(); err != nil || !l.Short() {
				t.Fatalf("short %v after a minute, failed: %v", l.Short(), err)
			}
			if age, _ := l.Stalled(); age < time.Second || l.Hung() != 0 {
				t.Errorf("a write waits for %v, %v by the disk", age, l.Hung())
			}
			d.now.Store(false)
			ok(t, g.Sync())
			time.Sleep(time.Second)
			if l.Short() {
				t.Error("the log is short of nothing any more")
			}
		}
		segments := l.Stats().Segments
		if segments < 4 {
			t.Errorf("%d segments", segments)
		}
		d.now.Store(true) // as a log is closed that lacks one
		last, err := g.LastIndex()
		ok(t, err)
		ok(t, g.StoreLogs(entries(last+1, 1, 40, 100)))
		time.Sleep(time.Second)
		if err := l.Close(); err == nil {
			t.Error("the log was closed without what it had to write")
		}
	})
}

// A disk that hangs is seen while the log waits for a file descriptor that the writer has no need of yet, and for how long
// it hangs counts from the end of a wait that held it up.
func TestHangBesideShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := scarce{vfs.NewMem(), &atomic.Bool{}}
		l, err := Open(d, testConfig())
		ok(t, err)
		g := groupOf(t, l, 1)
		stored(t, g, entries(1, 1, 1, 100))
		d.now.Store(true)
		stored(t, g, entries(2, 1, 1, 3600)) // the next segment is wanted, not needed
		synctest.Wait()
		if !l.Short() || l.Hung() != 0 {
			t.Fatalf("short: %v, hangs for %v", l.Short(), l.Hung())
		}
		hung, release := d.HangAt(vfs.OpSync, 1)
		ok(t, g.StoreLogs(entries(3, 1, 1, 10)))
		<-hung
		time.Sleep(time.Minute)
		if age := l.Hung(); age < time.Minute {
			t.Errorf("it hangs for %v", age)
		}
		release()
		ok(t, g.Sync())
		if age := l.Hung(); age != 0 {
			t.Errorf("nothing is written, and hangs for %v", age)
		}
		ok(t, g.StoreLogs(entries(4, 1, 40, 100)))
		time.Sleep(time.Hour) // it waits for the segment
		if age := l.Hung(); age != 0 {
			t.Errorf("it waits for a descriptor: hangs for %v", age)
		}
		hung, release = d.HangAt(vfs.OpSync, 1)
		d.now.Store(false)
		<-hung
		time.Sleep(time.Second)
		if age := l.Hung(); age < time.Second-descriptorRetry || age > 2*time.Second {
			t.Errorf("it hangs for %v since it has one", age)
		}
		release()
		ok(t, g.Sync())
		ok(t, l.Close())
	})
}
