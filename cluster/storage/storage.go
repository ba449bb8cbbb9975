// Package storage is where the groups of a node's queues keep their log, term and vote: one log
// for all of them, in the node's data directory. It knows what is stored of which queue, and what
// is lost. It needs the data directory, and notifies whoever opens it when the log fails, when a
// group's entries cannot be read, and when room runs short.
package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// Config is what the log of a node rests on. Its calls may come before Open returns, and from
// any goroutine; it must not block.
type Config struct {
	Dir *datadir.Dir
	// LogDir opens the directory of the log; nil: vfs.OS.
	LogDir func(path string) (vfs.Dir, error)
	Logger *slog.Logger
	// TailBytes, LowBytes and FloorBytes are as those of wal.Config.
	TailBytes, LowBytes, FloorBytes int64
	// Failed is notified that nothing more can be written; Lost, that a group's entries cannot be read; Pressed, that
	// the room on the disk has passed a limit; Opening, how many segments of how many are read.
	Failed  func(error)
	Lost    func(id.GroupID, error)
	Pressed func()
	Opening func(done, total int)
}

// Storage is the log, beside what queues have in the data directory. Its methods may be called
// concurrently.
type Storage struct {
	*wal.Log

	dir *datadir.Dir
}

// Open opens the node's log, in which all queues are.
func Open(c Config) (*Storage, error) {
	path := c.Dir.Log()
	if err := c.Dir.MakeLog(); err != nil {
		return nil, err
	}
	if c.LogDir == nil {
		c.LogDir = vfs.OS
	}
	dir, err := c.LogDir(path)
	if err != nil {
		return nil, fmt.Errorf("cluster: opening the log's directory: %w", err)
	}
	log, err := wal.Open(dir, wal.Config{
		Logger: c.Logger, OnFailure: c.Failed, OnLost: c.Lost,
		Mark:      c.Dir.Mark().Log,
		TailBytes: c.TailBytes, LowBytes: c.LowBytes, FloorBytes: c.FloorBytes, OnPressure: func(wal.Pressure) { c.Pressed() },
		OnOpen: c.Opening,
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: opening the log in %q: %w", path, err)
	}
	return &Storage{Log: log, dir: c.Dir}, nil
}

// remedyRebuild is what to do about a member that is kept closed.
const remedyRebuild = "restore them, or let this member be rebuilt from its peers"

// Queue opens a queue's part of the node's log. It fails with wal.ErrLost, or another sign of
// damage, if the queue's member had something that is no longer there.
func (s *Storage) Queue(q id.QueueUID) (raftfsm.Storage, error) {
	known := s.Has(q.Group())
	if err := s.LostGroup(q.Group()); err != nil {
		return nil, fmt.Errorf("its entries in the node's log are damaged: %w", err)
	}
	if gap := s.Gap(); !known && gap != nil { // first: it names what is missing
		return nil, fmt.Errorf("it has nothing in the node's log, and what it had may have been in what is damaged: %w", gap)
	}
	if !known && datadir.HasSnapshot(s.dir.Queue(q)) {
		return nil, fmt.Errorf("%w: it has a snapshot, but nothing in the log %s: segments are gone: %s",
			wal.ErrLost, s.dir.Log(), remedyRebuild)
	}
	return s.Group(q.Group())
}

// Begin makes the log have a record of a queue's member, and returns when that survives a power cut. A
// member comes first into the log, and then its files say what it is: so one whose files do, and that has
// no record, has lost it.
func (s *Storage) Begin(q id.QueueUID) error {
	g, err := s.Group(q.Group())
	if err == nil {
		err = g.Create()
	}
	if err != nil {
		return fmt.Errorf("cluster: beginning the log of queue %s: %w", q, err)
	}
	return nil
}

// HasQueue reports whether this node has something of a queue on disk.
func (s *Storage) HasQueue(q id.QueueUID) bool { return s.Has(q.Group()) || s.dir.HasQueue(q) }

// Queues returns the queues of which this node has something on disk, ascending.
func (s *Storage) Queues() ([]id.QueueUID, error) {
	uids, err := s.dir.Queues()
	if err != nil {
		return nil, err
	}
	for _, g := range s.Groups() {
		uids = append(uids, id.QueueUID(g))
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// DropQueue deletes what a queue has on disk. Its group is closed.
func (s *Storage) DropQueue(q id.QueueUID) error {
	err := s.Delete(q.Group())
	if errors.Is(err, wal.ErrClosed) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("cluster: deleting the log of queue %s: %w", q, err)
	}
	return errors.Join(err, s.dir.RemoveQueue(q))
}

// Damaged reports whether an error says that a member has lost what it had stored, or has a
// state that cannot be.
func Damaged(err error) bool {
	var corrupt *wal.CorruptError
	return errors.Is(err, wal.ErrLost) || errors.As(err, &corrupt) || raftfsm.Damaged(err) || raftfsm.Broken(err)
}
