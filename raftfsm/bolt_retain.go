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

// DropRetained implements Storage.
func (s *bolt) DropRetained(above uint64) error {
	s.retain.Lock()
	defer s.retain.Unlock()
	return s.write("drop entries of a snapshot", func() error { return s.retained.drop(above) })
}

// Retain implements Storage. Live entries of the dropped prefix move to the second file,
// then the prefix goes. Every step may be repeated after a crash.
func (s *bolt) Retain(upTo uint64, live iter.Seq2[uint64, uint64]) error {
	s.retain.Lock()
	defer s.retain.Unlock()
	return s.write("drop entries behind a snapshot", func() error {
		s.mu.RLock()
		end := min(s.first, min(upTo, ^uint64(0)-1)+1)
		s.mu.RUnlock()
		if err := s.retained.keep(upTo, live); err != nil {
			return err
		}
		oldest, err := s.db.FirstIndex()
		if err != nil || oldest == 0 || oldest >= end {
			return err
		}
		if err := s.moveLive(live, oldest, end); err != nil {
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

// moveLive copies the live entries in [oldest, end) to the second file, but for those that
// a snapshot has brought there: the log's own may have been another leader's.
func (s *bolt) moveLive(live iter.Seq2[uint64, uint64], oldest, end uint64) error {
	var batch []*raft.Log
	bytes := 0
	for from, to := range live {
		for index := max(from, oldest); index <= to && index < end; index++ {
			l := new(raft.Log)
			if err := s.retained.get(index, l); !errors.Is(err, raft.ErrLogNotFound) {
				if err != nil {
					return err
				}
				continue
			}
			if err := s.read(index, l); err != nil {
				if errors.Is(err, raft.ErrLogNotFound) {
					continue
				}
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
