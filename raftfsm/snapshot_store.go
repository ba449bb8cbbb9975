package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

const (
	snapshotSuffix  = ".snapshot"
	temporarySuffix = ".tmp"
)

// errUnknownOutcome is the error of a snapshot that has its name, which may not survive a power cut: nobody
// knows which snapshot a start would find.
var errUnknownOutcome = errors.New("it may be the one with which the member starts again, or not")

// snapshotOwner is what a group does for its snapshot store, which calls it without a lock.
type snapshotOwner struct {
	log    *slog.Logger
	onIdle func()      // nothing more is busy, and a compaction was put off
	fail   func(error) // stops the group
}

// snapshots is a group's raft.SnapshotStore: one durable snapshot in a directory, the
// bodies that it refers to in the storage.
type snapshots struct {
	dir       string
	storage   Storage
	syncNames func(dir string) error // syncDir; a test makes it fail
	group     id.GroupID             // set by bind, before raft uses the store
	owner     snapshotOwner          // likewise
	early     bool                   // likewise; tests only: publish before the log is durable

	mu       sync.Mutex // guards what follows; never held while bodies are read or stored
	newest   *snapshotFile
	starting bool          // raft restores this member's machine
	up       chan struct{} // closed by started
	applied  func() uint64 // set by started: the last entry that raft has handed to the machine
	restore  string        // id of a snapshot from the leader that the machine is to take next
	moving   int           // snapshots being sent or received
	busy     int           // those, exports, and a compaction under way: nothing else is dropped meanwhile
	putOff   bool          // compact was called while busy
	sinks    uint64        // snapshots begun, for the names of temporary files
	sending  map[*snapshotReader]sentSnapshot
}

// OpenSnapshots opens a group's snapshot directory. The directory need not exist until the first
// snapshot; most groups of a node have none. A snapshot file holds the machine's bytes; a snapshot
// that is sent also has the live bodies from the storage.
func OpenSnapshots(dir string, s Storage) (raft.SnapshotStore, error) {
	st := &snapshots{dir: dir, storage: s, syncNames: syncDir}
	names, err := st.files()
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		path := filepath.Join(dir, names[0])
		if st.newest, err = loadSnapshot(path); err != nil {
			return nil, fmt.Errorf("raftfsm: snapshot %s: %w", path, err)
		}
	}
	return st, st.sweep(temporarySuffix)
}

// files returns the names of snapshots, newest first: a name begins with the index.
func (s *snapshots) files() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("raftfsm: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), snapshotSuffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, nil
}

// sweep removes snapshots that a newer one replaced, and files with the other suffix.
func (s *snapshots) sweep(suffix string) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("raftfsm: %w", err)
	}
	var faults []error
	for _, e := range entries {
		if s.newest != nil && e.Name() == filepath.Base(s.newest.path) {
			continue
		}
		if strings.HasSuffix(e.Name(), snapshotSuffix) || strings.HasSuffix(e.Name(), suffix) {
			if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				faults = append(faults, fmt.Errorf("raftfsm: %w", err))
			}
		}
	}
	return errors.Join(faults...)
}

// bind sets whose snapshots it keeps. The newest must be of this group.
func (s *snapshots) bind(g id.GroupID, owner snapshotOwner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest != nil && s.newest.group != g {
		return fmt.Errorf("raftfsm: snapshot %s is of group %s, not of %s", s.newest.path, s.newest.group, g)
	}
	s.group, s.owner, s.starting, s.up = g, owner, true, make(chan struct{})
	return nil
}

// started notifies the store that raft has restored the machine, and how to learn of the last
// entry that raft has handed to it.
func (s *snapshots) started(applied func() uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting, s.applied = false, applied
	close(s.up)
}

// recover brings the storage in line with the newest snapshot, before raft starts. A crash
// may have come between the steps of an installation:
//
//   - Before the snapshot was published. What it brought is not of this member's state, and
//     may lack bodies that this state refers to: it goes. All of it is above the newest
//     snapshot (see snapshotSink.has).
//   - After that, and before raft had dropped the log. A log that does not have the
//     snapshot's entry may differ from the others' below it, and raft would send it to them.
func (s *snapshots) recover() error {
	f := s.latest()
	if f == nil {
		return s.storage.DropRetained(0)
	}
	if err := s.storage.DropRetained(f.index); err != nil {
		return err
	}
	first, last, is, err := s.superseded(f)
	if !is || err != nil {
		return err
	}
	return s.storage.DeleteRange(first, last)
}

// superseded returns the first and the last entry of the log, and whether the snapshot f stands for all of
// them: the log lacks the snapshot's last entry.
func (s *snapshots) superseded(f *snapshotFile) (first, last uint64, is bool, err error) {
	first, err = s.storage.FirstIndex()
	if err == nil {
		last, err = s.storage.LastIndex()
	}
	if err != nil || last == 0 || f.index < first {
		return first, last, false, err
	}
	if f.index > last {
		return first, last, true, nil
	}
	var l raft.Log
	if err := s.storage.GetLog(f.index, &l); err != nil {
		return first, last, false, fmt.Errorf("entry %d, the last of the snapshot: %w", f.index, err)
	}
	return first, last, l.Term != f.term, nil
}

// latest is nil before the first snapshot.
func (s *snapshots) latest() *snapshotFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	f := s.latest()
	if f == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{f.meta()}, nil
}

// Open implements raft.SnapshotStore.
func (s *snapshots) Open(name string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	f := s.newest
	if f == nil || f.id() != name {
		s.mu.Unlock()
		return nil, nil, fmt.Errorf("raftfsm: group %s has no snapshot %s", s.group, name)
	}
	in, err := os.Open(f.path)
	if err != nil {
		s.mu.Unlock()
		return nil, nil, fmt.Errorf("raftfsm: group %s: snapshot: %w", s.group, err)
	}
	r := &snapshotReader{from: s, file: f, in: in, local: s.starting || s.restore == name}
	s.restore = ""
	if !r.local {
		s.busy++
		s.moving++
		s.sends(r, uncounted)
	}
	s.mu.Unlock()
	meta := f.meta()
	if !r.local {
		if err := r.count(); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("raftfsm: group %s: snapshot %s: %w", s.group, name, err), r.Close())
		}
		meta.Size = r.counted.Load()
		s.mu.Lock()
		s.sends(r, meta.Size)
		s.mu.Unlock()
	}
	return meta, r, nil
}

// uncounted is the size of a snapshot whose bytes are being counted: as many as there can be.
const uncounted = math.MaxInt64

// sends records how many bytes a snapshot has that is being sent. The caller holds mu.
func (s *snapshots) sends(r *snapshotReader, bytes int64) {
	if s.sending == nil {
		s.sending = map[*snapshotReader]sentSnapshot{}
	}
	s.sending[r] = sentSnapshot{r.file.index, bytes}
}

// sent returns the snapshots that are being sent.
func (s *snapshots) sent() []sentSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sending))
}

// counting returns how many bytes of a snapshot that is about to be sent are counted so far; 0 if none are being counted.
func (s *snapshots) counting() (most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, is := range s.sending {
		if is.bytes == uncounted {
			most = max(most, r.counted.Load())
		}
	}
	return most
}

// endSending ends the sending of a snapshot, whether or not it succeeded.
func (s *snapshots) endSending(r *snapshotReader) {
	s.mu.Lock()
	delete(s.sending, r)
	s.mu.Unlock()
	s.arrived()
}

// covers reports whether this member has all that a snapshot of the present leader stands for. Such a
// snapshot comes late, from a leader that had taken the member out and in again meanwhile, or a second
// time, because the answer to the first was lost.
func (g *Group[R, E]) covers(s *raft.InstallSnapshotRequest) bool {
	r := g.raft.Load()
	return r != nil && s.Term == r.CurrentTerm() && g.snaps.covered(s.LastLogIndex, s.LastLogTerm, r.AppliedIndex())
}

// covered reports whether raft has handed a committed entry to the machine, or the log has it, and so
// all before it.
func (s *snapshots) covered(index, term, applied uint64) bool {
	if index <= applied {
		return true
	}
	var l raft.Log
	return s.storage.GetLog(index, &l) == nil && l.Term == term
}

// transfers returns how many snapshots are being sent or received.
func (s *snapshots) transfers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moving
}

// arrived ends a transfer and its hold, whether or not it succeeded.
func (s *snapshots) arrived() {
	s.mu.Lock()
	s.moving--
	s.mu.Unlock()
	s.release()
}

// hold keeps the storage from dropping anything until release.
func (s *snapshots) hold() {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
}

// release ends a hold.
func (s *snapshots) release() {
	s.mu.Lock()
	s.busy--
	idle := s.busy == 0 && s.putOff
	s.mu.Unlock()
	if idle {
		s.owner.onIdle()
	}
}

// compact lets the storage drop what neither its log nor the durable snapshot needs. It
// is put off while a snapshot is being sent or received.
func (s *snapshots) compact() error {
	s.mu.Lock()
	if s.busy > 0 {
		s.putOff = true
		s.mu.Unlock()
		return nil
	}
	s.putOff = false
	f := s.newest
	s.busy++ // one that is sent or comes from now on is not older: Retain leaves its bodies
	s.mu.Unlock()
	defer s.release()
	if f == nil {
		return nil
	}
	return s.storage.Retain(f.index, f.live.spans())
}

// sync waits until the log is durable as far as a present snapshot may reach.
func (s *snapshots) sync() error {
	if s.early {
		return nil
	}
	return s.storage.Sync()
}

// publish makes a written file the newest snapshot. After an error the snapshot does not count, unless
// that is errUnknownOutcome: then it may count at the next start, and nothing that it refers to may go.
func (s *snapshots) publish(temporary string, install bool) error {
	f, err := loadSnapshot(temporary)
	if err != nil {
		return err
	}
	f.path = filepath.Join(s.dir, f.id()+snapshotSuffix)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest != nil && s.newest.index > f.index {
		return fmt.Errorf("a newer one of entry %d is there", s.newest.index)
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return err
	}
	if err := s.syncNames(s.dir); err != nil {
		return fmt.Errorf("%w: %w", errUnknownOutcome, err)
	}
	s.newest = f
	if install {
		s.restore = f.id()
	}
	// It counts from here on. What is left of older ones takes room alone, and goes with a later one.
	if err := s.sweep(snapshotSuffix); err != nil {
		s.owner.log.Warn("an older snapshot cannot be removed; the next one tries again", "snapshot", f.path, "error", err)
	}
	return nil
}

// makeDir makes a directory and those above it that are missing, durably.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// syncDir makes names durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
