package groupsim

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

// keptEntries is how many of the newest entries a store examines when it is opened. More cannot be without the commit
// of a majority.
const keptEntries = 200

// store is a member's log, of which it knows which entries are on disk. It is for concurrent use.
type store struct {
	*wal.GroupLog

	mu      sync.Mutex // guards what follows
	from    uint64     // entries before it are on disk, and committed
	entries map[uint64]stored
	off     bool         // the power is off
	left    wal.Position // what was on disk then
}

// stored is an entry's term, and up to where the log has to be on disk for it.
type stored struct {
	term uint64
	at   wal.Position
}

// newStore reads which entries there are. What a log has when it is opened is on disk.
func newStore(g *wal.GroupLog) (*store, error) {
	first, err := g.FirstIndex()
	last, errLast := g.LastIndex()
	if err := errors.Join(err, errLast); err != nil {
		return nil, err
	}
	s := &store{GroupLog: g, entries: map[uint64]stored{}}
	s.from = max(first, last-min(last, keptEntries))
	for i := s.from; i > 0 && i <= last; i++ {
		var l raft.Log
		if err := g.GetLog(i, &l); err != nil {
			return nil, err
		}
		s.entries[i] = stored{term: l.Term}
	}
	return s, nil
}

// StoreLogs implements raft.LogStore.
func (s *store) StoreLogs(logs []*raft.Log) error {
	if err := s.GroupLog.StoreLogs(logs); err != nil {
		return err
	}
	at := s.Appended()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range logs {
		s.entries[l.Index] = stored{l.Term, at}
	}
	return nil
}

// StoreLog implements raft.LogStore.
func (s *store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// DeleteRange implements raft.LogStore.
func (s *store) DeleteRange(from, to uint64) error {
	s.mu.Lock()
	for i := range s.entries {
		if i >= from && i <= to {
			delete(s.entries, i)
		}
	}
	s.mu.Unlock()
	return s.GroupLog.DeleteRange(from, to)
}

// cut records that the power is off: only what is on disk now counts.
func (s *store) cut() {
	left := s.Durable()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off, s.left = true, left
}

// term returns the term of an entry; false: the log does not have it.
func (s *store) term(index uint64) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, is := s.entries[index]
	return e.term, is
}

// onDisk reports whether an entry would be there after a power cut now.
func (s *store) onDisk(index, term uint64) bool {
	s.mu.Lock()
	e, is := s.entries[index]
	from, durable, off := s.from, s.left, s.off
	s.mu.Unlock()
	if !off {
		durable = s.Durable()
	}
	return index < from || is && e.term == term && e.at <= durable
}
