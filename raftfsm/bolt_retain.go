package raftfsm

import (
	"errors"
	"iter"

	"github.com/hashicorp/raft"
)

// StoreRetained implements Storage.
func (s *bolt) StoreRetained(entries []*raft.Log) error {
	s.retain.Lock()
	defer s.retain.Unlock()
	return s.write("store entries of a snapshot", func() error { return s.retained.put(entries) })
}

// Retain implements Storage. Live entries of the dropped prefix move to the second file,
// then the prefix goes. Every step may be repeated after a crash.
func (s *bolt) Retain(live iter.Seq2[uint64, uint64]) error {
	s.retain.Lock()
	defer s.retain.Unlock()
	return s.write("drop entries behind a snapshot", func() error {
		s.mu.RLock()
		first := s.first
		s.mu.RUnlock()
		if err := s.retained.keep(live); err != nil {
			return err
		}
		oldest, err := s.db.FirstIndex()
		if err != nil || oldest == 0 || oldest >= first {
			return err
		}
		if err := s.moveLive(live, oldest, first); err != nil {
			return err
		}
		for from := oldest; from < first; from += deleteChunk {
			if err := s.db.DeleteRange(from, min(from+deleteChunk, first)-1); err != nil {
				return err
			}
		}
		return nil
	})
}

// moveLive copies the live entries in [oldest, first) to the second file.
func (s *bolt) moveLive(live iter.Seq2[uint64, uint64], oldest, first uint64) error {
	var batch []*raft.Log
	bytes := 0
	for from, to := range live {
		for index := max(from, oldest); index <= to && index < first; index++ {
			l := new(raft.Log)
			err := s.read(index, l)
			if errors.Is(err, raft.ErrLogNotFound) {
				continue // brought by a snapshot, so it is in the second file already
			}
			if err != nil {
				return err
			}
			batch = append(batch, l)
			if bytes += len(l.Data); bytes >= retainChunkBytes {
				if err := s.retained.put(batch); err != nil {
					return err
				}
				batch, bytes = batch[:0], 0
			}
		}
	}
	return s.retained.put(batch)
}
