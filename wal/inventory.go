package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/quorate/quorate/wal/vfs"
)

// The inventory says which segments exist. Segments are freed in any order, so a start would not notice without it that one
// is missing whose records no other refers to: those of a group at rest, or a vote. Segments that are begun have consecutive
// numbers. So the inventory changes only when segments are freed, before they are. It must never name a segment that a
// crash can leave without a file: that would cost the node all of its members.
const (
	// inventoryName begins like the name of a spare. A build that does not know inventories frees segments without
	// writing one. It removes spares at its start, and the inventory with them.
	inventoryName    = sparePrefix + "inventory"
	newInventoryName = sparePrefix + "inventory.new"

	inventoryMagic   = "QRTWALIN"
	inventoryVersion = 1
	inventoryHead    = 28
	// missingNamed is how many missing segments an error names at most.
	missingNamed = 16
	// maxInventoryBytes is enough for two million ranges of numbers. A larger file is damaged.
	maxInventoryBytes = 16 << 20
)

// inventory is the content of that file.
type inventory struct {
	secret uint64
	upTo   uint32 // the highest number that it speaks of; behind it all exist, up to the newest
	there  []span // numbers of those that exist up to there
}

// encode returns the bytes of the file (docs/formats/wal-segment.md).
func (v *inventory) encode() []byte {
	b := append([]byte{}, inventoryMagic...)
	b = binary.LittleEndian.AppendUint32(b, inventoryVersion)
	b = binary.LittleEndian.AppendUint64(b, v.secret)
	b = binary.LittleEndian.AppendUint32(b, v.upTo)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(v.there)))
	for _, s := range v.there {
		b = binary.LittleEndian.AppendUint32(b, uint32(s.lo))
		b = binary.LittleEndian.AppendUint32(b, uint32(s.hi-1))
	}
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

// parseInventory refuses what encode never writes. Nobody needs an inventory of another version: it is written anew.
func parseInventory(b []byte) (v inventory, ok bool) {
	const pair = 8
	end := len(b) - 4
	if end < inventoryHead || (end-inventoryHead)%pair != 0 || string(b[:8]) != inventoryMagic ||
		binary.LittleEndian.Uint32(b[8:]) != inventoryVersion || binary.LittleEndian.Uint32(b[end:]) != checksum(b[:end]) ||
		int64(binary.LittleEndian.Uint32(b[24:])) != int64((end-inventoryHead)/pair) {
		return v, false
	}
	v.secret, v.upTo = binary.LittleEndian.Uint64(b[12:]), binary.LittleEndian.Uint32(b[20:])
	next := uint64(0)
	for at := inventoryHead; at < end; at += pair {
		first, last := uint64(binary.LittleEndian.Uint32(b[at:])), uint64(binary.LittleEndian.Uint32(b[at+4:]))
		if first < next || last < first || last > uint64(v.upTo) {
			return inventory{}, false
		}
		v.there = append(v.there, span{first, last + 1})
		next = last + 1
	}
	return v, true
}

// missing returns some of the segments that are not there and should be, up to the newest.
func (v *inventory) missing(there map[uint32]bool, newest uint32) (names []string) {
	for _, s := range append(slices.Clone(v.there), span{uint64(v.upTo) + 1, uint64(newest) + 1}) {
		for n := s.lo; n < s.hi && len(names) < missingNamed; n++ {
			if !there[uint32(n)] {
				names = append(names, segmentName(uint32(n)))
			}
		}
	}
	return names
}

// readInventory returns the inventory of the directory; ok is false if no intact one exists.
func (l *Log) readInventory() (v inventory, ok bool, err error) {
	f, err := l.dir.Open(inventoryName)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("wal: %w", err)
	}
	var b []byte
	size, err := f.Size()
	if err == nil && size <= maxInventoryBytes {
		b = make([]byte, size)
		err = readFull(f, b, 0)
	}
	if err == nil {
		v, ok = parseInventory(b)
	}
	if !ok { // what cannot be read is not needed
		l.c.Logger.Error("the inventory of the log's segments is damaged: it is written anew, and a segment that is missing now is not noticed",
			"file", inventoryName, "directory", l.dir.Path(), "error", err)
	}
	if err := f.Close(); err != nil {
		return v, false, fmt.Errorf("wal: %w", err)
	}
	return v, ok, nil
}

// recoverInventory takes a segment that is missing for a gap. Without an inventory of this log it writes one, for nobody
// knows what was there: an older build may have been at work since, or the directory is another one.
func (l *Log) recoverInventory() error {
	v, ok, err := l.readInventory()
	if err != nil {
		return err
	}
	if ok && len(l.segs) == 0 {
		l.secret = v.secret // the log continues, so that the next start recognizes the inventory as its own
	}
	if !ok || v.secret != l.secret {
		if err := l.writeInventory(l.dir); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
		return nil
	}
	// A number that it knows is not given out again: a new segment would pass for the missing one.
	l.nextSeq = max(l.nextSeq, v.upTo+1)
	names, err := Segments(l.dir)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	there, newest := map[uint32]bool{}, uint32(0)
	for _, name := range names {
		seq, _ := parseName(name)
		there[seq], newest = true, max(newest, seq)
	}
	if gone := v.missing(there, newest); len(gone) > 0 {
		l.synced = loc{} // no mark is given out before the gap is durable
		what := "%s lacks the segments %s"
		if len(there) == 0 {
			what = "%s has no segments, and had %s"
		}
		l.noteGap(fmt.Errorf(what, l.dir.Path(), strings.Join(gone, ", ")))
	}
	return nil
}

// acceptMissing makes starts notice no more what is missing now, if there is a gap. First that is durable.
func (l *Log) acceptMissing() error {
	l.mu.Lock()
	gap, err := l.gap, l.usable()
	l.mu.Unlock()
	if gap == nil || err != nil {
		return err
	}
	if err := l.waitAll(); err != nil {
		return err
	}
	if err = l.writeInventory(l.files); err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
	return l.err
}

// writeInventory makes the directory say durably which segments exist, without those that are about to be freed. If the
// disk is full it removes the inventory instead: freeing segments must not need room. mu must not be held.
func (l *Log) writeInventory(dir vfs.Dir) error {
	l.naming.Lock()
	defer l.naming.Unlock()
	l.mu.Lock()
	v, err := l.inventory(), l.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	err = l.storeInventory(dir, v.encode())
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = l.dropInventory(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", inventoryName, err)
	}
	return nil
}

// inventory returns which segments exist. Those that come last may have no file yet, or one whose name is not durable,
// and Close removes the one that was made ahead: the inventory ends before these. The caller holds mu, and the log has
// not failed.
func (l *Log) inventory() inventory {
	v := inventory{secret: l.secret, upTo: l.nextSeq - 1}
	if l.ahead != nil {
		v.upTo = l.ahead.seq - 1
	}
	for _, s := range l.segs {
		if s.file == nil { // nor has any that follows it: files are made in the order of their numbers
			v.upTo = s.seq - 1
			break
		}
		if !s.freeing {
			v.there = addIndex(v.there, uint64(s.seq))
		}
	}
	return v
}

// storeInventory replaces the file.
func (l *Log) storeInventory(dir vfs.Dir, b []byte) error {
	var f vfs.File
	err := l.runSteps(func() (err error) { f, err = dir.Create(newInventoryName); return err })
	if err != nil {
		return err
	}
	err = l.runSteps(func() error { _, err := f.WriteAt(b, 0); return err }, f.Sync)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return l.runSteps(func() error { return dir.Rename(newInventoryName, inventoryName) }, dir.SyncDir)
}

// dropInventory removes the file, and what could not be written in its place.
func (l *Log) dropInventory(dir vfs.Dir) error {
	had := false
	err := l.runSteps(
		func() error { _, err := removeIfThere(dir, newInventoryName); return err },
		func() (err error) { had, err = removeIfThere(dir, inventoryName); return err },
		dir.SyncDir,
	)
	if had {
		l.c.Logger.Warn("the disk is full: the log has no inventory of its segments until more are freed, and one that is missing is not noticed",
			"directory", dir.Path(), "error", err)
	}
	return err
}

// removeIfThere removes a file, and reports whether there was one.
func removeIfThere(dir vfs.Dir, name string) (was bool, err error) {
	if err = dir.Remove(name); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
