package raftfsm

import (
	"errors"
	"fmt"
	"iter"

	"github.com/hashicorp/raft"
)

// errNoBodies means that bodies should be kept beyond the log. The catalog has no bodies: its snapshots hold
// everything.
var errNoBodies = errors.New("bodies do not outlive their entries in a bolt file")

// StoreRetained implements Storage: there is nothing that it could be asked to store.
func (s *bolt) StoreRetained(entries []*raft.Log) error {
	if len(entries) > 0 {
		return fmt.Errorf("raftfsm: %s: entry %d of a snapshot: %w", s.path, entries[0].Index, errNoBodies)
	}
	return nil
}

// Ahead implements Storage: nobody reads bodies.
func (s *bolt) Ahead(uint64, uint64) []raft.Log { return nil }

// DropRetained implements Storage: StoreRetained has stored nothing.
func (s *bolt) DropRetained(uint64) error { return nil }

// Retain implements Storage. It may be repeated after a crash.
func (s *bolt) Retain(upTo uint64, live iter.Seq2[uint64, uint64]) error {
	for index := range live {
		return fmt.Errorf("raftfsm: %s: entry %d is to be retained: %w", s.path, index, errNoBodies)
	}
	s.retain.Lock()
	defer s.retain.Unlock()
	return s.write("drop entries behind a snapshot", func() error {
		s.mu.RLock()
		end := min(s.first, min(upTo, ^uint64(0)-1)+1)
		s.mu.RUnlock()
		oldest, err := s.db.FirstIndex()
		if err != nil || oldest == 0 {
			return err
		}
		for from := oldest; from < end; from += deleteChunk {
			if err := s.db.DeleteRange(from, min(from+deleteChunk, end)-1); err != nil {
				return err
			}
		}
		return nil
	})
}

// Newest implements Storage.
func (s *bolt) Newest(upTo uint64, most int64) (entries uint64, bytes int64) {
	s.mu.RLock()
	first, last := s.first, s.last
	s.mu.RUnlock()
	for i := min(upTo, last); last > 0 && i > 0 && i >= first; i-- {
		var l raft.Log
		if s.GetLog(i, &l) != nil {
			break // whoever needs the entry finds out why
		}
		size := int64(len(l.Data))
		if bytes+size > most {
			break
		}
		entries, bytes = entries+1, bytes+size
	}
	return entries, bytes
}
