package raftfsm

import (
	"bytes"
	"fmt"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Raft persists an election in three writes. The vote's term and candidate belong
// together: after a crash between the two, a member that had voted for somebody in an
// older term would seem to have voted for him in the newer one. So LastVoteTerm waits in
// memory for LastVoteCand and both become one record. Writes that change nothing, as
// raft's rewriting of the term at every start, are dropped.

// Set implements raft.StableStore.
func (s *bolt) Set(key, value []byte) error {
	return s.write("store "+string(key), func() error {
		if string(key) != keyVoteCand {
			return fmt.Errorf("key %q is none of raft's", key)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.voteCand != nil && s.voteTerm == s.pending && bytes.Equal(s.voteCand, value) {
			return nil
		}
		if err := s.db.Set([]byte(keyVote), sealVote(s.pending, value)); err != nil {
			return err
		}
		s.voteTerm, s.voteCand = s.pending, bytes.Clone(value)
		return nil
	})
}

// Get implements raft.StableStore.
func (s *bolt) Get(key []byte) ([]byte, error) {
	if string(key) != keyVoteCand {
		return s.db.Get(key)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.voteCand == nil {
		return nil, raftboltdb.ErrKeyNotFound
	}
	return s.voteCand, nil
}

// SetUint64 implements raft.StableStore.
func (s *bolt) SetUint64(key []byte, value uint64) error {
	return s.write("store "+string(key), func() error {
		switch string(key) {
		case keyVoteTerm:
			s.mu.Lock()
			s.pending = value
			s.mu.Unlock()
			return nil
		case keyTerm:
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.term == value && (s.hasTerm || value == 0) {
				return nil
			}
			if err := s.setNumber(keyTerm, value); err != nil {
				return err
			}
			s.term, s.hasTerm = value, true
			return nil
		default:
			return fmt.Errorf("key %q is none of raft's", key)
		}
	})
}

// GetUint64 implements raft.StableStore.
func (s *bolt) GetUint64(key []byte) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch string(key) {
	case keyVoteTerm:
		if s.voteCand == nil {
			return 0, raftboltdb.ErrKeyNotFound
		}
		return s.voteTerm, nil
	case keyTerm:
		if !s.hasTerm {
			return 0, raftboltdb.ErrKeyNotFound
		}
		return s.term, nil
	default:
		return s.db.GetUint64(key)
	}
}
