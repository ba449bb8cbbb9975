package raftfsm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// boltLockTimeout is how long another process may hold the file until Open gives up.
	boltLockTimeout = time.Second
	// deleteChunk is how many entries one transaction deletes: appends wait for it.
	deleteChunk = 1024
	// boltMmapBytes is mapped from the start, so that a growing file rarely has to wait
	// for its readers. It is address space, not memory.
	boltMmapBytes = 64 << 20
)

// Keys in the bolt file that are the storage's own. Raft's are CurrentTerm,
// LastVoteTerm and LastVoteCand; the last two are kept as one record under keyVote.
const (
	keyFirst    = "FirstIndex"
	keyVote     = "Vote"
	keyTerm     = "CurrentTerm"
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
)

// bolt keeps the log, the term and the vote of a group without bodies in one bolt file: the
// catalog's, docs/adr/0027-bolt-for-the-catalog.md.
//
// A prefix that raft deletes only moves the first index; Retain takes the entries away later.
// After a failed write nothing more is written, until the file is opened again: bolt may destroy a file that is used
// on after a failed fsync.
type bolt struct {
	Synchronous
	path   string
	db     *raftboltdb.BoltStore
	failed atomic.Pointer[error]
	retain sync.Mutex // one Retain at a time

	mu       sync.RWMutex // guards what follows
	first    uint64       // durable: entries below are not the log's
	last     uint64       // 0 if the log is empty
	term     uint64
	hasTerm  bool
	voteTerm uint64 // durable vote
	voteCand []byte // nil if none
	pending  uint64 // LastVoteTerm that waits for its LastVoteCand
}

// OpenBolt opens or creates the storage of a group without bodies in one bolt file. It cannot keep
// bodies of entries that the log has dropped, and refuses to.
func OpenBolt(path string) (Storage, error) { return openBolt(path, nil) }

// openFile is os.OpenFile, or one of tests that fails.
type openFile func(name string, flag int, mode os.FileMode) (*os.File, error)

// boltOptions leaves the list of free pages out of each write; it is made when the file is opened.
func boltOptions(open openFile) *bbolt.Options {
	return &bbolt.Options{
		Timeout:         boltLockTimeout,
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: boltMmapBytes,
		NoStatistics:    true,
		OpenFile:        open,
	}
}

// boltOpenError distinguishes damage from a second process, for which the remedies differ.
func boltOpenError(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("raftfsm: %s is locked by another process: stop the other node that uses this directory", path)
	}
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, errCorrupt) {
		return fmt.Errorf("raftfsm: %s is damaged: %w: %w", path, errCorrupt, err)
	}
	return fmt.Errorf("raftfsm: open %s: %w", path, err)
}

// openBolt reads every entry before it trusts the file: raft would find damage only when it needs the
// entry.
func openBolt(path string, open openFile) (*bolt, error) {
	s := &bolt{path: path}
	err := checkStored(path)
	if err == nil {
		err = mapped(func() (err error) {
			s.db, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions(open), MsgpackUseNewTimeFormat: true})
			return err
		})
	}
	if err != nil {
		return nil, boltOpenError(path, err)
	}
	if err = s.load(); err == nil {
		err = s.readAll()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// readAll reads the log, of which raft believes without reading that it is there.
func (s *bolt) readAll() error {
	var l raft.Log
	for index := s.first; s.last != 0 && index <= s.last; index++ {
		if err := s.read(index, &l); err != nil {
			return fmt.Errorf("raftfsm: %s is damaged: %w", s.path, err)
		}
	}
	return nil
}

// load reads what is kept in memory.
func (s *bolt) load() error {
	var err error
	if s.first, _, err = s.getNumber(keyFirst); err != nil {
		return err
	}
	if s.term, s.hasTerm, err = s.getNumber(keyTerm); err != nil {
		return err
	}
	vote, err := s.db.Get([]byte(keyVote))
	switch {
	case err == nil:
		if s.voteTerm, s.voteCand, err = openVote(vote); err != nil {
			return s.readError("vote", err)
		}
		if sealed := sealVote(s.voteTerm, s.voteCand); len(vote) < len(sealed) {
			err = s.db.Set([]byte(keyVote), sealed) // a build wrote it that knew no checksums
		}
		if err != nil {
			return err
		}
	case !errors.Is(err, raftboltdb.ErrKeyNotFound):
		return s.readError("vote", err)
	}
	last, err := s.db.LastIndex()
	if err != nil {
		return s.readError("last index", err)
	}
	if last >= s.first {
		s.last = last
	}
	if s.first == 0 {
		if s.first, err = s.db.FirstIndex(); err != nil {
			return s.readError("first index", err)
		}
	}
	return nil
}

// getNumber reads a number, and gives it a checksum if it has none.
func (s *bolt) getNumber(key string) (v uint64, there bool, err error) {
	b, err := s.db.Get([]byte(key))
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return 0, false, nil
	}
	if err == nil {
		v, err = openNumber(key, b)
	}
	if err == nil && len(b) == numberBytes {
		err = s.setNumber(key, v)
	}
	if err != nil {
		return 0, false, s.readError(key, err)
	}
	return v, true, nil
}

func (s *bolt) setNumber(key string, v uint64) error {
	return s.db.Set([]byte(key), sealNumber(key, v))
}

func (s *bolt) readError(what string, err error) error {
	return fmt.Errorf("raftfsm: %s: read %s: %w", s.path, what, err)
}

// ErrWriteFailed reports that a write to a group's own log has failed. It is not retried, because
// nobody knows what the disk has kept.
var ErrWriteFailed = errors.New("nothing is written any more until the file is opened again")

// write runs a write unless one has failed before, and remembers a failure for good.
func (s *bolt) write(what string, f func() error) error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	if err := mapped(f); err != nil {
		err = fmt.Errorf("raftfsm: %s: %s failed, %w: %w", s.path, what, ErrWriteFailed, err)
		s.failed.CompareAndSwap(nil, &err)
		return *s.failed.Load()
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore: after a snapshot from the leader raft
// drops the whole log instead of leaving a gap in it.
func (s *bolt) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (s *bolt) FirstIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.last == 0 {
		return 0, nil
	}
	return s.first, nil
}

// LastIndex implements raft.LogStore.
func (s *bolt) LastIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// GetLog implements raft.LogStore.
func (s *bolt) GetLog(index uint64, out *raft.Log) error {
	s.mu.RLock()
	inside := s.last != 0 && index >= s.first && index <= s.last
	s.mu.RUnlock()
	if !inside {
		return raft.ErrLogNotFound
	}
	return s.read(index, out)
}

// read takes an entry that cannot be decoded for damage, and one that is not there for what it is.
func (s *bolt) read(index uint64, out *raft.Log) error {
	err := mapped(func() error { return s.db.GetLog(index, out) })
	switch {
	case err == nil:
		err = openEntry(index, out)
	case errors.Is(err, raft.ErrLogNotFound), errors.Is(err, bolterrors.ErrDatabaseNotOpen):
	case !errors.Is(err, errCorrupt):
		err = corruptf("%v", err) // it could not be decoded
	}
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		return s.readError(fmt.Sprintf("entry %d", index), err)
	}
	return err
}

// Entry implements Storage.
func (s *bolt) Entry(index uint64, out *raft.Log) error { return s.read(index, out) }

// StoreLog implements raft.LogStore.
func (s *bolt) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. An entry that does not follow the last one, as the
// first after a snapshot from the leader, starts the log over.
func (s *bolt) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	return s.write("append to the log", func() error {
		begin := logs[0].Index
		if err := s.prepare(begin); err != nil {
			return err
		}
		if err := s.db.StoreLogs(sealEntries(logs)); err != nil {
			return err
		}
		s.mu.Lock()
		s.last = logs[len(logs)-1].Index
		if s.first == 0 {
			s.first = begin
		}
		s.mu.Unlock()
		return nil
	})
}

// prepare makes the log ready for an append that begins at an index.
func (s *bolt) prepare(begin uint64) error {
	s.mu.RLock()
	first, last := s.first, s.last
	s.mu.RUnlock()
	switch {
	case last != 0 && begin == last+1, last == 0 && begin == first:
		return nil
	case last != 0 && begin <= last:
		return fmt.Errorf("entry %d comes behind entry %d", begin, last)
	}
	// What is left of older times must not become a part of the new log.
	old, err := s.db.LastIndex()
	if err != nil {
		return err
	}
	if old >= begin {
		if err := s.deleteEntries(begin, old); err != nil {
			return err
		}
	}
	return s.setFirst(begin)
}

// setFirst makes a first index durable.
func (s *bolt) setFirst(first uint64) error {
	if err := s.setNumber(keyFirst, first); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = first
	if s.last < first {
		s.last = 0
	}
	return nil
}

// DeleteRange implements raft.LogStore: a prefix, or the whole log behind a snapshot, only
// moves the first index; a suffix that another leader replaces is deleted.
func (s *bolt) DeleteRange(from, to uint64) error {
	return s.write("shorten the log", func() error {
		s.mu.RLock()
		first, last := s.first, s.last
		s.mu.RUnlock()
		if last == 0 {
			return nil
		}
		if from <= first {
			return s.setFirst(max(first, min(to, last)+1))
		}
		if to < last {
			return fmt.Errorf("entries %d..%d are in the middle of the log %d..%d", from, to, first, last)
		}
		// First the bound, then the entries: a reader must not miss one inside the log.
		s.mu.Lock()
		s.last = from - 1
		s.mu.Unlock()
		return s.deleteEntries(from, last)
	})
}

// deleteEntries deletes from the end, so that a crash half-way leaves no gap.
func (s *bolt) deleteEntries(from, to uint64) error {
	for to >= from {
		low := from
		if to-from >= deleteChunk {
			low = to - deleteChunk + 1
		}
		if err := s.db.DeleteRange(low, to); err != nil {
			return err
		}
		to = low - 1
	}
	return nil
}

// Close implements Storage.
func (s *bolt) Close() error { return mapped(s.db.Close) }
