package wal

import (
	"errors"
	"syscall"
	"time"

	"github.com/quorate/quorate/wal/vfs"
)

// descriptorRetry is the time between two attempts to get a file descriptor.
const descriptorRetry = 50 * time.Millisecond

// patient is the directory of a log that is open. Where there is no file descriptor for what the
// log has to do, it waits for one: nothing was written, so nothing is in doubt, and others give
// theirs back.
type patient struct {
	vfs.Dir
	l     *Log
	rolls bool // the roller opens it
}

// Create implements vfs.Dir.
func (p patient) Create(name string) (f vfs.File, err error) {
	err = p.l.awaitDescriptor(p.rolls, func() error { f, err = p.Dir.Create(name); return err })
	return f, err
}

// Open implements vfs.Dir.
func (p patient) Open(name string) (f vfs.File, err error) {
	err = p.l.awaitDescriptor(p.rolls, func() error { f, err = p.Dir.Open(name); return err })
	return f, err
}

// SyncDir implements vfs.Dir.
func (p patient) SyncDir() error { return p.l.awaitDescriptor(p.rolls, p.Dir.SyncDir) }

// lacksDescriptor reports whether the process, or the system, has no file descriptor left.
func lacksDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// EndWaits ends all waits for file descriptors, now and later: an operation that lacks one fails,
// and the log with it. Call it first when you stop a node, because stopping groups wait for the
// log. It may be called concurrently and more than once.
func (l *Log) EndWaits() { l.ended.Do(func() { close(l.endWaits) }) }

// awaitDescriptor runs what needs a file descriptor until it gets one, the log fails, or Close
// or EndWaits is called. mu must not be held.
func (l *Log) awaitDescriptor(rolls bool, do func() error) error {
	err := do()
	if !lacksDescriptor(err) {
		return err
	}
	l.waitsForDescriptor(rolls, 1)
	defer l.waitsForDescriptor(rolls, -1)
	began := time.Now()
	l.c.Logger.Error("the log waits for a file descriptor, and so do all writes of this node: raise the limit of open files, or close connections", "error", err)
	next := time.NewTicker(descriptorRetry)
	defer next.Stop()
	for lacksDescriptor(err) && l.Failed() == nil {
		select {
		case <-l.stop:
			return err
		case <-l.endWaits:
			return err
		case <-next.C:
			err = do()
		}
	}
	if err == nil {
		l.c.Logger.Warn("the log has got a file descriptor and goes on", "waited", time.Since(began))
	}
	return err
}

// waitsForDescriptor records that a file could not be opened because descriptors ran out, or that this is over.
// Neither counts as a disk that hangs.
func (l *Log) waitsForDescriptor(rolls bool, change int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.short += change
	if change > 0 {
		l.shortages++
	}
	if !rolls {
		return
	}
	l.rollShort = change > 0
	if l.forRoller {
		l.excused = time.Now()
	}
}

// Short reports whether an operation of the log waits for a file descriptor.
func (l *Log) Short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.short > 0
}

// Hung returns for how long the disk has delayed the writer's current write. It is 0 if there is
// none, or if the writer waits for a file that lacks a file descriptor, which is not the disk's
// fault. Other waits for descriptors do not count.
func (l *Log) Hung() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() || l.forRoller && l.rollShort {
		return 0
	}
	return min(time.Since(l.began), time.Since(l.excused))
}
