package raftfsm

import (
	"iter"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

// Storage stores one group's log, term and vote. The storage of a queue is a part of the node's
// shared log; that of the catalog is a bolt file.
//
// Set and StoreRetained return only when their writes, and all earlier ones, survive a power cut.
// StoreLogs, DeleteRange, Retain and SetUint64 may return as soon as their writes are in memory,
// see Notify. Writes survive in order: an entry never without the term that was stored before it.
// After a failed write every further write must fail too, so that an uncertain state on disk is
// never overwritten. Methods may be called concurrently as raft.LogStore and raft.StableStore
// demand; Entry also concurrently with all others.
type Storage interface {
	raft.LogStore
	raft.StableStore
	// DeleteRange of a prefix, and of the whole log, only moves the first index: Entry
	// finds the entries until Retain, or until others take their indexes. A suffix is
	// deleted for good.

	// Entry reads an entry that StoreRetained has stored, or else one that is in the log, or that
	// the log has dropped but whose bodies are still retained. It returns raft.ErrLogNotFound if
	// the entry is gone.
	Entry(index uint64, out *raft.Log) error
	// Ahead reads entries after one, up to last, as far as one read brings them together. They are
	// committed. It may return none: Entry reads them all.
	Ahead(after, last uint64) []raft.Log
	// StoreRetained stores entries of a snapshot from the leader, whatever the log has at their
	// indexes.
	StoreRetained(entries []*raft.Log) error
	// DropRetained forgets the entries of StoreRetained above an index, because the snapshot that
	// they came with was not installed.
	DropRetained(above uint64) error
	// Retain forgets entries up to the index upTo that live does not list: those below the first
	// index of the log, and those of StoreRetained. live yields ascending ranges of indexes, both
	// ends included, that the durable snapshot of that index refers to. Retain ranges over it more
	// than once.
	Retain(upTo uint64, live iter.Seq2[uint64, uint64]) error
	// Newest returns how many of the newest entries up to an index fit into most bytes, and their
	// size.
	Newest(upTo uint64, most int64) (entries uint64, bytes int64)
	Close() error

	// Appended returns the position behind the newest write. Positions increase in the order of the
	// writes.
	Appended() wal.Position
	// Durable returns the position up to which everything survives a power cut.
	Durable() wal.Position
	// Notify registers f, which is called when Durable has passed a write, or with the error
	// because of which it never will. f must return soon. Notify returns false, and f is never
	// called, if every write returns only when it survives a power cut.
	Notify(f func(wal.Position, error)) bool
	// Sync returns when everything that was written survives a power cut.
	Sync() error
}

// Synchronous is embedded by a Storage whose writes return only when they are durable.
type Synchronous struct{}

// Appended implements Storage.
func (Synchronous) Appended() wal.Position { return 0 }

// Durable implements Storage.
func (Synchronous) Durable() wal.Position { return 0 }

// Notify implements Storage.
func (Synchronous) Notify(func(wal.Position, error)) bool { return false }

// Sync implements Storage.
func (Synchronous) Sync() error { return nil }
