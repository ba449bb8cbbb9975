package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/quorate/quorate/wal/vfs"
)

// The reserve is a file without content whose room is taken. When the disk comes to its
// floor it is given up, so that what frees space can still be written: acknowledgements,
// purges, deletions, snapshots, and records that are carried. It is created again when there is room.
const (
	reserveName = "reserve"
	// maxReserveBytes is enough for some hundred thousand acknowledgements.
	maxReserveBytes = 64 << 20
)

// reserve is the reserved space; Log.looking guards it.
type reserve struct {
	held    int64 // bytes; 0: it is given up, or never was there
	refused bool  // the file system does not know how to put room by
}

// reserveFor returns how many bytes to reserve on a file system of a size.
func reserveFor(floor int64, total uint64) int64 {
	if floor <= 0 || total == math.MaxInt64 { // unlimited, or not known
		return 0
	}
	return min(floor, maxReserveBytes)
}

// recoverReserve takes over what an earlier life has reserved.
func (l *Log) recoverReserve() error {
	f, err := l.dir.Open(reserveName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		l.reserve.held, err = f.Size()
		err = errors.Join(err, f.Close())
	}
	if err == nil && l.reserve.held == 0 { // a crash came before it had its room
		err = l.dir.Remove(reserveName)
	}
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// GiveUpReserve removes the reserve of the log in a directory if the file system has less than room
// bytes free. It is for callers that have to write before they can open the log.
func GiveUpReserve(dir vfs.Dir, room uint64) error {
	free, _, err := dir.Space()
	if err != nil || free >= room {
		return err
	}
	if err = dir.Remove(reserveName); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, dir.SyncDir())
}

// keepReserve gives the reserve up, or creates it again, depending on the free space; coming are bytes that are about
// to be written. It returns the free space after that. The caller holds looking. A failure costs the reserve, not the
// log.
func (l *Log) keepReserve(free, total uint64, low, floor, coming int64) uint64 {
	r, want := &l.reserve, reserveFor(floor, total)
	if l.Failed() != nil {
		return free // nothing touches the disk any more
	}
	var err error
	switch {
	case r.held > 0 && (want == 0 || free < uint64(floor+coming)):
		l.c.Logger.Warn("the log's reserve is given up, so that what frees space can be written", "free_bytes", free, "reserve_bytes", r.held)
		r.held = 0
		err = errors.Join(l.dir.Remove(reserveName), l.dir.SyncDir())
	case r.held == 0 && want > 0 && !r.refused && free >= uint64(low+low/4+want):
		err = l.putBy(want)
	default:
		return free
	}
	if errors.Is(err, errors.ErrUnsupported) {
		r.refused = true
		l.c.Logger.Info("the file system of the log cannot put room by: there is no reserve for what frees space", "error", err)
	} else if err != nil {
		l.c.Logger.Warn("the log's reserve", "error", err)
	}
	if now, _, err := l.dir.Space(); err == nil {
		free = now
	}
	return free
}

// putBy allocates the reserve, and leaves no part of it behind if there is no room.
func (l *Log) putBy(want int64) error {
	f, err := l.dir.Create(reserveName)
	if err != nil {
		return err
	}
	err = errors.Join(f.Allocate(want), f.Sync(), f.Close())
	if err != nil {
		return errors.Join(err, l.dir.Remove(reserveName))
	}
	l.reserve.held = want
	return l.dir.SyncDir()
}
